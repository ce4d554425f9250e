package diskusage

import (
	"errors"
	"maps"
	"math"
	"time"
)

// Reasons why a pod can't be counted. The pod causes each of them, errMoved if it persists.
var (
	errTooManyFiles = errors.New("there are too many files to count")
	errTooDeep      = errors.New("directories are too deep to count")
	errMoved        = errors.New("directories are moved while they are counted")
	errTooLong      = errors.New("there are more files than can be counted in the time")
)

// errSlowDisk is the error of a count that ran out of time after few files.
var errSlowDisk = errors.New("the files could not be counted in time; the disk is slow")

// Figure is the size of some files: the bytes that are allocated for them, and their inodes.
type Figure struct{ Bytes, Inodes int64 }

func (f *Figure) add(o Figure) { f.Bytes, f.Inodes = plus(f.Bytes, o.Bytes), plus(f.Inodes, o.Inodes) }

// plus is the sum, or the largest number where that overflows: a file system may report any size.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Usage is what a pod has on the node's disk, except for writable layers, which the container runtime counts. It is
// not changed after the count.
type Usage struct {
	// At is when the count ended. Zero: there was none yet.
	At time.Time
	// EmptyDirs are the emptyDirs on disk; Others are configMap, secret, projected and downwardAPI volumes. Both are
	// by volume name.
	EmptyDirs, Others map[string]Figure
	// Logs and Messages are by container. What belongs to no container of the pod is under the empty name.
	Logs, Messages map[string]Figure
	// Hosts is the pod's /etc/hosts.
	Hosts Figure
	// Uncountable reports that the pod has more than can be counted: its use counts as too much. The figures are less
	// than its use.
	Uncountable bool
	// Err is why the figures are less than the use. Nil: they are complete.
	Err error
	// Unfinished are the files that a count under way has seen so far, without those of Others: the pod has at least
	// as many. Zero: none is under way, or it has just started.
	Unfinished Figure
}

// Total is the sum of all but Others, which no container can write to.
func (u *Usage) Total() Figure {
	sum := u.Hosts
	for _, part := range []map[string]Figure{u.EmptyDirs, u.Logs, u.Messages} {
		for f := range maps.Values(part) {
			sum.add(f)
		}
	}
	return sum
}
