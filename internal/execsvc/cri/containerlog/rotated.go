package containerlog

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/execsvc/cri/logdir"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// maxRaces is how often the successor of a file is looked for again, because it is compressed or removed just then.
	maxRaces = 10
	// lookPause is the pause between two looks for a writer of a rotated log: the runtime writes the last lines after it
	// has made the new log. writerLooks bounds the looks, as another process may have the file open for as long as it
	// likes. settledLooks is for how many the file must not grow if the file system doesn't show its writers.
	lookPause                 = 20 * time.Millisecond
	writerLooks, settledLooks = 250, 10
	// listPause is the least pause between two looks for the next rotated log while there is no current one.
	listPause = 100 * time.Millisecond
)

// openRenamed opens the newest rotated log, which the runtime may still write to. Nil: it is compressed, so the log was
// removed, or there is none.
func openRenamed(dir, name string) *file {
	l, err := logdir.Open(dir, name)
	if err != nil {
		return nil
	}
	defer l.Close()
	list, err := l.Rotated()
	newest := logdir.Newest(list)
	if err != nil || newest == nil || newest.Kind != logdir.Plain {
		return nil
	}
	f, err := l.OpenFile(newest.Name)
	if err != nil {
		return nil
	}
	return &file{File: f, from: f}
}

// rotate switches to the file that continues the current one, and so on, up to the file that has the log's name now.
// Each file is read to its end first.
func (r *reading) rotate(log *followed) error {
	for switched := 0; ; switched++ {
		next, err := r.successor(log.file)
		if next == nil || err != nil {
			return err
		}
		if switched > 0 {
			// A pod may create new names faster than they are read.
			err = r.nextFile(log.file)
		}
		if err == nil {
			err = r.finish(log)
		}
		if err != nil {
			next.close()
			return err
		}
		r.unwatch(log)
		log.file.close()
		log.file = next
		r.watch(log)
		if err := r.all(log.file, false); err != nil {
			return err
		}
	}
}

// successor opens the file that continues f: the next rotated log, or the current one. Nil: f is the current one, or has
// been renamed and the runtime hasn't made a new one yet.
func (r *reading) successor(f *file) (*file, error) {
	for range maxRaces {
		current, err := openfile.OpenBeneath(r.Dir, r.Name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if current != nil {
			if same, err := sameFile(f.File, current); same || err != nil {
				_ = current.Close()
				return nil, err
			}
		}
		if current == nil {
			// A pod that removes the log could have a large directory listed at each of its changes to the old file.
			if !r.ended && time.Since(r.listed) < listPause {
				return nil, nil //nolint:nilnil // It is looked for again at the next change, or a second later.
			}
			r.listed = time.Now()
		}
		next, err := r.nextRotated(f)
		switch {
		case err == nil && next == nil && current != nil:
			return &file{File: current, from: current}, nil
		case current != nil:
			_ = current.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return next, err
		}
	}
	return nil, nil //nolint:nilnil // It is looked for again at the next change.
}

// nextRotated opens the rotated log after f. Nil: there is none, or f isn't a rotated log. The error is fs.ErrNotExist
// if it was compressed or removed just now.
func (r *reading) nextRotated(f *file) (*file, error) {
	own, ok := logdir.Parse(filepath.Base(r.Name), nameOf(f.File))
	if !ok {
		return nil, nil //nolint:nilnil // as documented
	}
	l, err := logdir.Open(r.Dir, r.Name)
	if err != nil {
		return nil, nil //nolint:nilnil // The logs were removed.
	}
	defer l.Close()
	next, err := l.Successor(own)
	if err != nil && !errors.Is(err, logdir.ErrTooManyFiles) {
		return nil, fmt.Errorf("list the rotated logs: %w", err)
	}
	if next == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	opened, err := l.OpenFile(next.Name)
	if err != nil {
		return nil, err
	}
	if next.Kind == logdir.Plain {
		return &file{File: opened, from: opened}, nil
	}
	from, err := gzip.NewReader(opened)
	if err != nil {
		_ = opened.Close()
		return nil, fmt.Errorf("read %s: %w", l.Path(next.Name), err)
	}
	return &file{File: opened, from: from}, nil
}

// nameOf returns the name that the open file has now, or had when it was removed.
func nameOf(f *os.File) string {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return ""
	}
	return filepath.Base(strings.TrimSuffix(path, " (deleted)"))
}

// finish reads a rotated log to its end, once no process writes to it any more.
func (r *reading) finish(log *followed) error {
	if !r.ended {
		r.looks = 0
	}
	for still := 0; ; {
		r.looks++
		writers := logdir.WritersOf(log.File)
		before, err := log.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if err := r.all(log.file, false); err != nil {
			return err
		}
		if after, err := log.Seek(0, io.SeekCurrent); err != nil || after > before {
			still = 0
		} else {
			still++
		}
		if writers == logdir.NoWriter || writers == logdir.WritersUnknown && still > settledLooks || r.looks > writerLooks {
			return r.all(log.file, true)
		}
		select {
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		case <-time.After(lookPause):
		}
	}
}
