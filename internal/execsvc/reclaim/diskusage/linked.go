package diskusage

import "golang.org/x/sys/unix"

// maxLinked is the number of files with several names that a count records. Each count has its own records, so that
// no pod makes another's figures inexact.
const maxLinked = 100_000

// linked records files with several names, so that each counts once.
type linked struct {
	most int
	seen map[uint64]struct{}
}

// share returns the figure of one name of a file: all of it at its first name, and nothing later. When the records
// are full, each name counts for its part of the file.
func (l *linked) share(st *unix.Statx_t) Figure {
	whole := Figure{bytesOf(st), 1}
	if st.Nlink <= 1 {
		return whole
	}
	if _, seen := l.seen[st.Ino]; seen {
		return Figure{}
	}
	if len(l.seen) >= l.most {
		return Figure{whole.Bytes/int64(st.Nlink) + 1, 1}
	}
	if l.seen == nil {
		l.seen = map[uint64]struct{}{}
	}
	l.seen[st.Ino] = struct{}{}
	return whole
}

// reset drops all files.
func (l *linked) reset() { l.seen = nil }
