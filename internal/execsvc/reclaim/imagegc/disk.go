package imagegc

import (
	"fmt"
	"math"
	"math/bits"

	"golang.org/x/sys/unix"
)

// disk is the size of a file system, and its free bytes for unprivileged processes.
type disk struct{ bytes, free int64 }

func statfs(path string) (disk, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return disk{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	unit := uint64(fs.Frsize) //nolint:gosec // It is a size.
	return disk{bounded(fs.Blocks * unit), bounded(fs.Bavail * unit)}, nil
}

func bounded(n uint64) int64 { return int64(min(n, math.MaxInt64)) } //nolint:gosec // It is bounded.

// excess returns the bytes to free: none below high percent usage, else the bytes down to low percent usage.
func (d disk) excess(high, low int) int64 {
	if d.used() < int64(high) {
		return 0
	}
	return scaled(d.bytes, int64(100-low), 100) - min(d.free, d.bytes)
}

// used returns the usage in percent.
func (d disk) used() int64 { return 100 - scaled(min(d.free, d.bytes), 100, d.bytes) }

// size formats a number of bytes as the kubelet's event does.
func size(bytes int64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	n := float64(bytes)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if n /= 1 << 10; n < 1<<10 {
			return fmt.Sprintf("%.1f %s", n, unit)
		}
	}
	return fmt.Sprintf("%.1f TiB", n/(1<<10))
}

// scaled returns n*by/of, where by is a percentage and of is at least n or 100. Some network file systems are so
// large that n*by overflows.
func scaled(n, by, of int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(by))   //nolint:gosec // They aren't negative.
	quotient, _ := bits.Div64(high, low, uint64(of)) //nolint:gosec // As above.
	return int64(quotient)                           //nolint:gosec // It is n at most, or by.
}
