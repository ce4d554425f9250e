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

// resumption is the value of --resume. At most one of file and cursor is set.
type resumption struct {
	file   string
	cursor *podconfigv1.Cursor
	// target is the file, or the file that it links to, in which the position is stored. load finds it.
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

// Set implements pflag.Value. The name of an existing file is always a file.
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

// isRelative reports whether s is a path such as ./7/x, which looks like a cursor.
func isRelative(s string) bool { return strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") }

// load returns the state that watch starts with.
func (r *resumption) load() (*stream.Held, error) {
	if r.file == "" {
		return stream.NewHeld(r.cursor, nil), nil
	}
	// Enough for tens of thousands of pods, and a bound for a device or a wrong file.
	const limit = 64 << 20
	content, err := r.read(limit)
	if err == nil {
		if err := r.checkWritable(); err != nil {
			return nil, fmt.Errorf("store the position in %s: %w", r.file, err)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the position: %w", err)
	case len(content) > limit:
		return nil, fmt.Errorf("read the position: %s has more than %d bytes: podctl watch didn't write it", r.file, limit)
	case len(content) == 0:
		return stream.NewHeld(nil, nil), nil
	}
	var kept podconfigv1.WatchPodUpdatesRequest
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(content, &kept); err != nil {
		return nil, fmt.Errorf("read the position: %s isn't a file of podctl watch: %w", r.file, err)
	}
	return stream.NewHeld(kept.GetResumeAfter(), kept.GetKnownPods()), nil
}

// checkWritable fails if save would fail, before anything is printed.
func (r *resumption) checkWritable() error {
	pending, err := renameio.NewPendingFile(r.target)
	if err != nil {
		return err
	}
	return pending.Cleanup()
}

// read finds the file, and reads at most limit+1 bytes; nothing if there is no file yet. It refuses a file that isn't
// regular, as save would replace it by a regular one.
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
	// Opening a device can have side effects.
	if info, err := os.Stat(target); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s isn't a regular file", r.file)
	}
	// If it has become a FIFO meanwhile, O_NONBLOCK prevents a wait for a writer.
	f, err := os.OpenFile(target, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// save stores the request of the next watch in the file, if there is one; grpcurl can send it too. The file is whole
// even after a crash.
func (r *resumption) save(held *stream.Held) error {
	if r.file == "" {
		return nil
	}
	content, err := protojson.Marshal(held.Resume())
	if err != nil {
		return fmt.Errorf("store the position in %s: %w", r.file, err)
	}
	if err := renameio.WriteFile(r.target, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("store the position in %s: %w", r.file, err)
	}
	return nil
}
