package containerlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// rotated returns the path of the nth rotated log.
func rotated(l Log, n int) string { return fmt.Sprintf("%s.20260102-0304%02d", path(l), n) }

// runtimeLog writes a log as a container runtime does: to its open file, until it reopens the log.
type runtimeLog struct {
	t    *testing.T
	l    Log
	file *os.File
	// lines is the number of the last line.
	lines int
}

func newRuntimeLog(t *testing.T) *runtimeLog {
	t.Helper()
	l, _, _ := logOf(t, "")
	r := &runtimeLog{t: t, l: l}
	r.reopen()
	t.Cleanup(func() { check(t, r.file.Close()) })
	return r
}

// write writes a line with the next number.
func (r *runtimeLog) write() {
	r.t.Helper()
	r.lines++
	_, err := fmt.Fprintf(r.file, "%sstdout F %d\n", at, r.lines)
	check(r.t, err)
}

// reopen makes a new log, and returns the open file of the old one.
func (r *runtimeLog) reopen() (old *os.File) {
	r.t.Helper()
	old = r.file
	file, err := os.OpenFile(path(r.l), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(r.t, err)
	r.file = file
	return old
}

// rotate rotates the log.
func (r *runtimeLog) rotate(n int) {
	r.t.Helper()
	check(r.t, os.Rename(path(r.l), rotated(r.l, n)))
	check(r.t, r.reopen().Close())
}

// compress compresses the nth rotated log.
func (r *runtimeLog) compress(n int) {
	r.t.Helper()
	text, err := os.ReadFile(rotated(r.l, n))
	check(r.t, err)
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(text)
	check(r.t, errors.Join(err, w.Close(), os.WriteFile(rotated(r.l, n)+".gz", out.Bytes(), 0o600), os.Remove(rotated(r.l, n))))
}

// wantAll fails unless the text has all lines of the log.
func (r *runtimeLog) wantAll(text string) {
	r.t.Helper()
	var want strings.Builder
	for i := range r.lines {
		fmt.Fprintf(&want, "%d\n", i+1)
	}
	if text != want.String() {
		r.t.Errorf("%q; want the lines 1 to %d", text, r.lines)
	}
}

// While a reader is slow, the log is rotated several times, and the rotated logs are compressed. The reader gets every
// line once. Without notifications too.
func TestFollowThroughRotations(t *testing.T) {
	t.Run("watched", func(t *testing.T) { testFollowThroughRotations(t, new(Watch)) })
	t.Run("polled", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testFollowThroughRotations(t, nil) }) })
}

func testFollowThroughRotations(t *testing.T, watch *Watch) {
	r := newRuntimeLog(t)
	var out bytes.Buffer
	r.l.Stdout, r.l.Watch = &out, watch
	step := 0
	r.l.Running = func(context.Context) (bool, error) {
		step++
		switch step {
		case 1:
			for i := range 5 {
				r.write()
				r.rotate(i)
			}
			r.write()
			r.compress(0)
			r.compress(2)
		case 2:
			// The file that is read now is one that was compressed, or the current one.
			r.write()
			r.rotate(5)
			r.compress(4)
			r.write()
		case 3:
			r.rotate(6)
			r.write()
			r.rotate(7)
			r.write()
			return false, nil
		}
		return true, nil
	}
	if err := Read(t.Context(), r.l); err != nil {
		t.Error(err)
	}
	r.wantAll(out.String())
}

// The runtime writes a rotated log's last lines after it has made the new one. The reader waits for them.
func TestLastLinesOfARotatedLog(t *testing.T) { synctest.Test(t, testLastLinesOfARotatedLog) }

func testLastLinesOfARotatedLog(t *testing.T) {
	r := newRuntimeLog(t)
	var out bytes.Buffer
	r.l.Stdout = &out
	var ended atomic.Bool
	r.l.Running = func(context.Context) (bool, error) { return !ended.Load(), nil }
	r.write()
	done := make(chan error, 1)
	go func() { done <- Read(t.Context(), r.l) }()
	synctest.Wait()
	check(t, os.Rename(path(r.l), rotated(r.l, 0)))
	r.write()
	old := r.reopen()
	for range 3 {
		// It has looked at the log meanwhile.
		time.Sleep(poll)
		synctest.Wait()
		r.lines++
		_, err := fmt.Fprintf(old, "%sstdout F %d\n", at, r.lines)
		check(t, err)
	}
	check(t, old.Close())
	r.write()
	time.Sleep(2 * poll)
	ended.Store(true)
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.wantAll(out.String())
}

// A log that was renamed and whose successor doesn't exist yet is read under its name. One that was removed isn't.
func TestRenamedLog(t *testing.T) {
	r := newRuntimeLog(t)
	var out bytes.Buffer
	r.l.Stdout = &out
	r.write()
	r.rotate(0)
	r.compress(0)
	r.write()
	check(t, os.Rename(path(r.l), rotated(r.l, 1)))
	if err := Read(t.Context(), r.l); err != nil || out.String() != "2\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	out.Reset()
	step := 0
	r.l.Running = func(context.Context) (bool, error) {
		if step++; step == 1 {
			r.write()
			check(t, r.reopen().Close())
			r.write()
			return true, nil
		}
		return false, nil
	}
	if err := Read(t.Context(), r.l); err != nil || out.String() != "2\n3\n4\n" {
		t.Errorf("followed: %v, %q", err, out.String())
	}
	r.l.Running = nil
	check(t, errors.Join(os.Remove(path(r.l)), os.Remove(rotated(r.l, 1))))
	if err := Read(t.Context(), r.l); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a removed log: %v", err)
	}
}

// A follower doesn't wait for long for a process that keeps a rotated log open, and goes on if its log is replaced by
// hand.
func TestStrangersInTheDirectory(t *testing.T) { synctest.Test(t, testStrangersInTheDirectory) }

func testStrangersInTheDirectory(t *testing.T) {
	r := newRuntimeLog(t)
	var out bytes.Buffer
	r.l.Stdout = &out
	var holder *os.File
	step := 0
	r.l.Running = func(context.Context) (bool, error) {
		switch step++; step {
		case 1:
			r.write()
			var err error
			holder, err = os.OpenFile(path(r.l), os.O_WRONLY, 0)
			check(t, err)
			r.rotate(0)
			r.write()
		case 2:
			check(t, os.Rename(path(r.l), filepath.Join(filepath.Dir(path(r.l)), "elsewhere (deleted)")))
			check(t, r.reopen().Close())
			r.write()
		case 3:
			check(t, os.Remove(path(r.l)))
			check(t, r.reopen().Close())
			r.write()
		case 4:
			check(t, os.WriteFile(rotated(r.l, 7)+".gz", []byte("nonsense"), 0o600))
			r.rotate(6)
		}
		return true, nil
	}
	err := Read(t.Context(), r.l)
	check(t, holder.Close())
	r.wantAll(out.String())
	if !errors.Is(err, gzip.ErrHeader) && !strings.Contains(fmt.Sprint(err), "unexpected EOF") {
		t.Errorf("a compressed log with nonsense: %v", err)
	}
}
