package podctl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// resumption is where watch goes on: the value of --resume. At most one of its fields is set.
type resumption struct {
	file   string
	cursor *podconfigv1.Cursor
}

// cursorText is a cursor as people pass it on: INSTANCE/REVISION/VIEW.
func cursorText(c *podconfigv1.Cursor) string {
	return c.GetInstanceId() + "/" + strconv.FormatUint(c.GetRevision(), 10) + "/" + c.GetView()
}

// parseCursor reads what cursorText writes.
func parseCursor(s string) (*podconfigv1.Cursor, bool) {
	parts := strings.Split(s, "/")
	// A relative path as "./7/x" isn't a cursor.
	if len(parts) != 3 || parts[0] == "" || parts[0] == "." || parts[0] == ".." {
		return nil, false
	}
	revision, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return nil, false
	}
	return &podconfigv1.Cursor{InstanceId: parts[0], Revision: revision, View: parts[2]}, true
}

// String implements pflag.Value.
func (r *resumption) String() string {
	if r.cursor != nil {
		return cursorText(r.cursor)
	}
	return r.file
}

// Type implements pflag.Value.
func (r *resumption) Type() string { return "place" }

// Set implements pflag.Value. A file that exists is a file, whatever its name looks like.
func (r *resumption) Set(s string) error {
	*r = resumption{}
	cursor, isCursor := parseCursor(s)
	_, err := os.Stat(s)
	switch {
	case err == nil:
		r.file = s
	case isCursor:
		r.cursor = cursor
	case strings.Contains(s, "/"):
		r.file = s
	default:
		return errors.New("want a cursor INSTANCE/REVISION/VIEW, or a file: one that exists, or a path with a slash as in ./NAME")
	}
	return nil
}

// load is what watch starts with.
func (r *resumption) load() (*stream.Held, error) {
	if r.file == "" {
		return stream.NewHeld(r.cursor, nil), nil
	}
	// Enough for tens of thousands of pods, and less than what a device or a wrong file would bring.
	const limit = 64 << 20
	content, err := readUpTo(r.file, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return stream.NewHeld(nil, nil), nil
	case err != nil:
		return nil, fmt.Errorf("read the place to go on from: %w", err)
	case len(content) > limit:
		return nil, fmt.Errorf("read the place to go on from: %s has more than %d bytes: podctl watch didn't write it", r.file, limit)
	case len(content) == 0:
		return stream.NewHeld(nil, nil), nil
	}
	var kept podconfigv1.WatchPodUpdatesRequest
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(content, &kept); err != nil {
		return nil, fmt.Errorf("read the place to go on from: %s isn't as podctl watch wrote it: %w", r.file, err)
	}
	return stream.NewHeld(kept.GetResumeAfter(), kept.GetKnownPods()), nil
}

// readUpTo reads one byte more than limit at most.
func readUpTo(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// save keeps in the file, if there is one, what the next watch needs: the request that it will send, so that grpcurl can use it
// too. Whenever podctl or the machine stops, the file is whole.
func (r *resumption) save(held *stream.Held) error {
	if r.file == "" {
		return nil
	}
	content, err := protojson.Marshal(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: held.Cursor(), KnownPods: held.Known()})
	if err != nil {
		return fmt.Errorf("keep the place in %s: %w", r.file, err)
	}
	if err := renameio.WriteFile(r.file, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep the place in %s: %w", r.file, err)
	}
	return nil
}
