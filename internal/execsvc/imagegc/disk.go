package imagegc

import (
	"fmt"
	"math"
	"math/bits"

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
	if used := 100 - scaled(available, 100, d.bytes); used < int64(high) {
		return 0
	}
	return scaled(d.bytes, int64(100-low), 100) - available
}

// scaled is n*by/of, of which by is a percentage, and of no less than n or than 100. Some network file systems have so many bytes that n*by is too
// large a number.
func scaled(n, by, of int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(by))   //nolint:gosec // They aren't negative.
	quotient, _ := bits.Div64(high, low, uint64(of)) //nolint:gosec // As above.
	return int64(quotient)                           //nolint:gosec // It is n at most, or by.
}
