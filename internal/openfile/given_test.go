package openfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// descriptor is the path by which a shell names an open file.
func descriptor(f *os.File) string { return fmt.Sprintf("/dev/fd/%d", f.Fd()) }

// pipe is a pipe that has that text, and whose writer stays open if it is to.
func pipe(t *testing.T, text string, open bool) (path string) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	written := make(chan error, 1)
	go func() {
		_, err := w.WriteString(text)
		if !open {
			err = errors.Join(err, w.Close())
		}
		written <- err
	}()
	t.Cleanup(func() { r.Close(); <-written })
	return descriptor(r)
}

// A flag may name a file, a descriptor of one, or a pipe with more data than the kernel's buffer.
func TestReadGiven(t *testing.T) {
	kernels(t, func(t *testing.T) {
		dir, long := t.TempDir(), strings.Repeat("x", 200<<10)
		path := write(t, filepath.Join(dir, "file"), long)
		f, err := os.Open(path)
		must(t, err)
		defer f.Close()
		for name, tc := range map[string]struct {
			path  string
			piped bool
		}{"a file": {path, false}, "its descriptor": {descriptor(f), false}, "a pipe": {pipe(t, long, false), true}} {
			soon(t, func() {
				data, piped, err := ReadGiven(t.Context(), tc.path, 200<<10)
				if string(data) != long || piped != tc.piped || err != nil {
					t.Errorf("%s: %d bytes, piped %t, %v", name, len(data), piped, err)
				}
			}, func() {})
		}
	})
}

// A pipe is bounded in bytes and time, and what is neither a file nor a pipe is refused.
func TestReadGivenIsBounded(t *testing.T) {
	var large *SizeError
	if _, _, err := ReadGiven(t.Context(), pipe(t, strings.Repeat("x", 101), true), 100); !errors.As(err, &large) {
		t.Errorf("%v, want a SizeError", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	slow := pipe(t, "half", true)
	soon(t, func() {
		go cancel(enough)
		if _, _, err := ReadGiven(ctx, slow, 100); !errors.Is(err, enough) {
			t.Errorf("%v, want the context's cause", err)
		}
	}, func() {})
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	soon(t, func() {
		if _, _, err := ReadGiven(t.Context(), fifo, 100); !errors.Is(err, ErrNoData) {
			t.Errorf("%v, want ErrNoData", err)
		}
	}, func() {})
	for _, path := range []string{"/dev/zero", "/proc/kmsg", t.TempDir()} {
		var kind *KindError
		if _, _, err := ReadGiven(t.Context(), path, 100); !errors.As(err, &kind) {
			t.Errorf("%s: %v, want a KindError", path, err)
		}
	}
}
