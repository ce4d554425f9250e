package logrotation

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/cri/logdir"
	"github.com/podstream/podstream/internal/failpoint"
)

// chunk is how much is compressed between two checks for the end of the context and of the file.
const chunk = 256 << 10

const (
	// A compression that fails after longFailure isn't tried again for failureShare times what it took, so that one log
	// doesn't take the worker's time from others.
	longFailure, failureShare = time.Second, 10
	// Files that are larger than largeFactor times MaxSize and largeMore aren't compressed: a log becomes as large only
	// during an outage of the runtime, or by a pod that makes files. largeMore is what a fast container writes while the
	// machine is too busy to look at its log.
	largeFactor, largeMore = 4, 1 << 30
)

// errOdd is the result for a file that isn't compressed because no ordinary rotation has made it.
var errOdd = errors.New("no rotation makes such a file")

// errInUse is the result for a file that is written to, or was removed. It isn't compressed.
var errInUse = errors.New("the rotated log is in use, or was removed")

// compressOne compresses one rotated file of a log. The log is queued again if it has another one, behind the logs of
// other containers. A file that can't be compressed stays as it is, until the next rotation.
func (m *Manager) compressOne(ctx context.Context, c *containerLog) {
	began := m.cfg.Clock.Now()
	m.mu.Lock()
	if c.compressing {
		// The other worker looks for more files.
		c.compressAgain = true
	}
	if c.gone || c.compressing || began.Before(c.compressNext) {
		m.mu.Unlock()
		return
	}
	c.compressing, c.compressAgain = true, false
	m.mu.Unlock()
	more, err := m.compressNewest(ctx, c)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.compressing, c.busy = false, ""
	if c.gone || ctx.Err() != nil {
		return
	}
	if err != nil && !c.compressionFails {
		m.log.Warn("can't compress a rotated log; it stays as it is until the next rotation", append(m.keys(c), "error", err)...)
	}
	c.compressionFails = err != nil
	if took := m.cfg.Clock.Since(began); err != nil && took > longFailure {
		c.compressNext = began.Add(took * (1 + failureShare))
	}
	if more && err == nil || c.compressAgain {
		m.uncompressed.put(c)
	}
}

// compressNewest compresses the newest rotated file that is to be compressed and isn't in use. more reports whether there
// are others.
func (m *Manager) compressNewest(ctx context.Context, c *containerLog) (more bool, err error) {
	l, err := logdir.Open(m.cfg.LogsDir, c.name)
	if err != nil {
		return false, err
	}
	defer l.Close()
	list, err := l.Rotated()
	if err != nil {
		return false, fmt.Errorf("list the rotated logs: %w", err)
	}
	files := planFor(list, m.cfg.MaxFiles-1, "").compress
	for i, r := range files {
		m.set(func() { c.busy = r.Temporary() })
		err := m.compress(ctx, l, r)
		switch {
		case errors.Is(err, errInUse):
		case errors.Is(err, errOdd), errors.Is(err, fs.ErrExist):
			m.odd(c, err)
		default:
			return i+1 < len(files), err
		}
	}
	return false, nil
}

// odd reports once for each container that a file is left as it is.
func (m *Manager) odd(c *containerLog, err error) {
	said := false
	m.set(func() { said, c.oddFile = c.oddFile, true })
	if !said {
		m.log.Warn("a rotated log is not compressed; it is removed when newer ones have replaced it", append(m.keys(c), "error", err)...)
	}
}

// checkSize returns errOdd for a file that would keep the worker for long: a large one, or one with a hole. A sparse
// file takes no room, whatever its size is.
func (m *Manager) checkSize(f *os.File, size int64) error {
	if most := largeFactor*min(m.cfg.MaxSize, math.MaxInt64/2/largeFactor) + largeMore; size > most {
		return fmt.Errorf("%w: %s has %d bytes; want %d at most", errOdd, f.Name(), size, most)
	}
	// A file system that doesn't record holes returns the end of the file.
	hole, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_HOLE)
	if err == nil && hole < size {
		return fmt.Errorf("%w: %s has a hole at byte %d", errOdd, f.Name(), hole)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return nil
}

// compress compresses a rotated log into a temporary file, gives that its name, and removes the log.
func (m *Manager) compress(ctx context.Context, l *logdir.Log, r logdir.Rotated) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.CompressTimeout, fmt.Errorf("its compression took longer than %v", m.cfg.CompressTimeout))
	defer cancel()
	from, err := l.OpenFile(r.Name)
	if missing(err) {
		return errInUse
	}
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if logdir.WritersOf(from) == logdir.HasWriter {
		return errInUse
	}
	st, err := statOf(from)
	if err != nil {
		return err
	}
	if err := m.checkSize(from, st.Size); err != nil {
		return err
	}
	failpoint.Reached(failpoint.BeforeLogCompression)
	to, err := l.Create(r.Temporary(), &st)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Remove(r.Temporary()))
		}
	}()
	err = errors.Join(deflate(ctx, to, from, st.Size), to.Close())
	if err != nil {
		return err
	}
	failpoint.Reached(failpoint.LogCompressed)
	if err := l.Rename(r.Temporary(), r.Compressed()); err != nil {
		return err
	}
	failpoint.Reached(failpoint.CompressedLogNamed)
	return l.Remove(r.Name)
}

// deflate compresses the file, which has size bytes, and stores the result on the disk. It ends with errInUse if the
// file grows or is removed meanwhile.
func deflate(ctx context.Context, to, from *os.File, size int64) error {
	w, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	for left := size; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		st, err := statOf(from)
		if err != nil {
			return err
		}
		if st.Nlink == 0 || st.Size != size {
			return errInUse
		}
		if left <= 0 {
			return errors.Join(w.Close(), to.Sync())
		}
		n, err := io.CopyN(w, from, min(left, chunk))
		left -= n
		if err != nil {
			return fmt.Errorf("compress %s: %w", from.Name(), err)
		}
	}
}

func statOf(f *os.File) (st unix.Stat_t, err error) {
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return st, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return st, nil
}
