package containerlog

import (
	"io"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/cri/logdir"
)

const (
	// turn is how much a follower reads before it checks again whether the container runs. It also is what a follower
	// reads after the container's end beyond the files' sizes.
	turn = 64 << 20
	// moreFiles is how many files a follower reads after the container's end beyond those that there were.
	moreFiles = 16
	// maxRatio is how far deflate can compress, and diskRatio how far a file system may.
	maxRatio, diskRatio = 1032, 32
	// endless bounds sums of sizes.
	endless = 1 << 60
)

// end is the end of a followed log: when its container has ended, a follower reads what the log has by then. Another
// container of the pod may continue to write to it.
type end struct {
	// unchecked is how much was read since the last check whether the container runs.
	unchecked int
	// ended is set once the container has ended. Afterwards bytes and files are how much may be read at most, and looks
	// are the looks for writers of rotated logs.
	ended bool
	bytes int64
	files int
	looks int
}

// running reports whether the container runs, while f is read.
func (r *reading) running(f *file) (bool, error) {
	r.unchecked = 0
	if r.ended {
		return false, nil
	}
	running, err := r.Running(r.ctx)
	if err == nil && !running {
		r.ended, r.looks = true, 0
		r.bytes, r.files = r.remaining(f)
	}
	return running, err
}

// count counts what was read of f. The error is errEnough if it is more than the log had at its container's end.
func (r *reading) count(f *file, n int) error {
	if r.Running == nil {
		return nil
	}
	if r.ended {
		if r.bytes -= int64(n); r.bytes < 0 {
			return errEnough
		}
		return nil
	}
	if r.unchecked += n; r.unchecked < turn {
		return nil
	}
	_, err := r.running(f)
	return err
}

// nextFile counts a change to the next file after f.
func (r *reading) nextFile(f *file) error {
	if _, err := r.running(f); err != nil || !r.ended {
		return err
	}
	if r.files--; r.files < 0 {
		return errEnough
	}
	return nil
}

// remaining returns how much there is to read from f on, at most.
func (r *reading) remaining(f *file) (bytes int64, files int) {
	bytes, files = turn, moreFiles
	seen := map[uint64]bool{}
	add := func(st *unix.Stat_t, ratio int64) {
		if seen[st.Ino] {
			return // Names of one file are no more data.
		}
		seen[st.Ino] = true
		size := min(st.Size, min(st.Blocks, endless>>20)*512*diskRatio)
		bytes = min(bytes+min(size, endless/maxRatio)*ratio, endless)
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil {
		ratio := int64(1)
		if f.from != io.Reader(f.File) {
			ratio = maxRatio
		}
		add(&st, ratio)
	}
	l, err := logdir.Open(r.Dir, r.Name)
	if err != nil {
		return bytes, files // The logs were removed.
	}
	defer l.Close()
	if st, err := l.Stat(l.Name); err == nil {
		add(&st, 1)
	}
	own, ok := logdir.Parse(filepath.Base(r.Name), nameOf(f.File))
	if !ok {
		return bytes, files
	}
	list, _ := l.Rotated() // The names of a directory with too many are as many as nextRotated reads.
	for _, next := range list {
		if !next.After(own) {
			continue
		}
		if st, err := l.Stat(next.Name); err == nil {
			ratio := int64(1)
			if next.Kind == logdir.Compressed {
				ratio = maxRatio
			}
			add(&st, ratio)
			files++
		}
	}
	return bytes, files
}
