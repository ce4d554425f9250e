package podctl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// resumption is where watch goes on: the value of --resume. At most one of file and cursor is set.
type resumption struct {
	file   string
	cursor *podconfigv1.Cursor
	// target is the file, or what it links to: where the place is kept. load finds it.
	target string
}

// String implements pflag.Value.
func (r *resumption) String() string {
	if r.cursor != nil {
		return stream.FormatCursor(r.cursor)
	}
	return r.file
}

// Type implements pflag.Value.
func (r *resumption) Type() string { return "place" }

// Set implements pflag.Value. A file that exists is a file, whatever its name looks like.
func (r *resumption) Set(s string) error {
	*r = resumption{}
	cursor, parseErr := stream.ParseCursor(s)
	_, err := os.Stat(s)
	switch {
	case err == nil:
		r.file = s
	case parseErr == nil && s != "" && !isRelative(s):
		r.cursor = cursor
	case strings.Contains(s, "/"):
		r.file = s
	default:
		return errors.New("want a cursor INSTANCE/REVISION/VIEW, or a file: one that exists, or a path with a slash as in ./NAME")
	}
	return nil
}

// isRelative tells of a path as ./7/x, which looks like a cursor.
func isRelative(s string) bool { return strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") }

// load is what watch starts with.
func (r *resumption) load() (*stream.Held, error) {
	if r.file == "" {
		return stream.NewHeld(r.cursor, nil), nil
	}
	// Enough for tens of thousands of pods, and less than what a device or a wrong file would bring.
	const limit = 64 << 20
	content, err := r.read(limit)
	switch {
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

// read finds the file, and reads one byte more than limit at most; nothing if there is no file yet. It refuses what isn't a
// regular file: save would put one in its place.
func (r *resumption) read(limit int64) ([]byte, error) {
	target, err := filepath.EvalSymlinks(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(r.file); err == nil {
			return nil, fmt.Errorf("%s is a link to a file that isn't there", r.file)
		}
		r.target = r.file
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.target = target
	// Even to open a device may have an effect.
	if info, err := os.Stat(target); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s isn't a regular file", r.file)
	}
	// If it has become a FIFO meanwhile, O_NONBLOCK keeps podctl from waiting for somebody who writes to it.
	f, err := os.OpenFile(target, os.O_RDONLY|unix.O_NONBLOCK, 0)
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
	content, err := protojson.Marshal(held.Resume())
	if err != nil {
		return fmt.Errorf("keep the place in %s: %w", r.file, err)
	}
	if err := renameio.WriteFile(r.target, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep the place in %s: %w", r.file, err)
	}
	return nil
}
