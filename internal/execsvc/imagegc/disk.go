package imagegc

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// disk is how many bytes a file system has, and how many of them are free for programs.
type disk struct{ bytes, free int64 }

func statfs(path string) (disk, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return disk{}, fmt.Errorf("look at the file system of %s: %w", path, err)
	}
	unit := uint64(fs.Frsize) //nolint:gosec // It is a size.
	return disk{bounded(fs.Blocks * unit), bounded(fs.Bavail * unit)}, nil
}

func bounded(n uint64) int64 { return int64(min(n, math.MaxInt64)) } //nolint:gosec // It is bounded.

// excess is how many bytes have to be freed: none unless high percent of the disk are used, and then as many as leave low percent used.
func (d disk) excess(high, low int) int64 {
	available := min(d.free, d.bytes)
	if used := 100 - int(available*100/d.bytes); used < high {
		return 0
	}
	return d.bytes*int64(100-low)/100 - available
}
