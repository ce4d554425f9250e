package openfile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadAllBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for size, fits := range map[int]bool{0: true, 1: true, 3 * chunk: true, 3*chunk + 1: false} {
		want := bytes.Repeat([]byte("x"), size)
		must(t, os.WriteFile(path, want, 0o600))
		data, err := Read(t.Context(), path, 3*chunk)
		var large *SizeError
		switch {
		case fits && (err != nil || !bytes.Equal(data, want)):
			t.Errorf("%d bytes: read %d, %v", size, len(data), err)
		case !fits && (!errors.As(err, &large) || large.Size != int64(size) || large.Limit != 3*chunk):
			t.Errorf("%d bytes: %v, want a SizeError", size, err)
		}
	}
}

// The size of a sparse file costs nothing, and the reader must not allocate it.
func TestReadAllSparse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Truncate(path, 1<<40))
	var large *SizeError
	if _, err := Read(t.Context(), path, 100); !errors.As(err, &large) {
		t.Errorf("%v, want a SizeError", err)
	}
}

// A file can grow past the limit after its size was read: /dev/zero does, with a size of 0.
func TestReadAllEndless(t *testing.T) {
	f, err := os.Open("/dev/zero")
	must(t, err)
	defer f.Close()
	var large *SizeError
	if _, err := ReadAll(t.Context(), f, 2*chunk); !errors.As(err, &large) {
		t.Errorf("%v, want a SizeError", err)
	}
}

func TestReadAllEndsWithItsContext(t *testing.T) {
	f, err := os.Open("/dev/zero")
	must(t, err)
	defer f.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	cancel(why)
	if _, err := ReadAll(ctx, f, 1<<40); !errors.Is(err, why) {
		t.Errorf("%v, want the context's cause", err)
	}
}

func TestReadAllDoesNotWaitForData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	must(t, err)
	defer f.Close()
	soon(t, func() {
		if _, err := ReadAll(t.Context(), f, 100); !errors.Is(err, ErrNoData) {
			t.Errorf("%v, want ErrNoData", err)
		}
	}, func() { f.Close() })
}
