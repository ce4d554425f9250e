package boltfile

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRefused: a failed write is reported once, with its reason; other errors are not of that kind.
func TestRefused(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "file", Err: unix.ENOSPC}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{full, "the store can't be written: write file: no space left on device"},
		{refused(full), "the store can't be written: write file: no space left on device"},
		{fmt.Errorf("open: %w", unix.EROFS), "the store can't be written: open: read-only file system"},
		{unix.ENOENT, "no such file or directory"},
		{ErrLocked, "the store is in use by another process"},
	} {
		got := refused(tc.err)
		if got.Error() != tc.want || !errors.Is(got, tc.err) {
			t.Errorf("refused(%v) is %q; want %q", tc.err, got, tc.want)
		}
	}
	if err := refused(nil); err != nil {
		t.Errorf("nothing is refused, and yet: %v", err)
	}
}
