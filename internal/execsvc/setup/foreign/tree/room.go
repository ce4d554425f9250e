package tree

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hasRoom returns an error if the file system would have too little room or too few inodes after so many bytes.
func (w *importer) hasRoom(n int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(w.top.Fd()), &fs); err != nil {
		return fmt.Errorf("ask for the room of the file system: %w", err)
	}
	// A block has at least 512 bytes, whatever the file system says.
	blocks := uint64(n) / uint64(max(fs.Frsize, 512)) //nolint:gosec // Both are positive.
	if least := fs.Blocks / reserve; fs.Bavail < least+blocks+1 {
		return fmt.Errorf("the file system of %s would have less than 1/%d of its room available: %w", w.job.Root, reserve, unix.ENOSPC)
	}
	if least := fs.Files / reserve; fs.Files > 0 && fs.Ffree < least { // Zero: it makes inodes as needed.
		return fmt.Errorf("the file system of %s has less than 1/%d of its inodes available: %w", w.job.Root, reserve, unix.ENOSPC)
	}
	return nil
}
