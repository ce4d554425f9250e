package containerlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// writeFunc is called for each write.
type writeFunc func(p []byte)

func (w writeFunc) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// A hole is skipped, whatever its size is, and the lines around it are read.
func TestHoles(t *testing.T) {
	for name, tc := range map[string]struct {
		tail *int64
		// end is the text after the hole.
		end, want string
	}{
		"all":                   {end: at + "stdout F two\n", want: "one\nthree\n"},
		"the last line":         {end: at + "stdout F two\n" + at + "stdout F three\n", tail: new(int64(1)), want: "three\n"},
		"it ends with the hole": {want: "one\n"},
		"only the hole":         {tail: new(int64(10)), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, stdout, _ := logOf(t, at+"stdout F one\n")
			check(t, os.Truncate(path(l), 4<<40))
			if tc.tail == nil && tc.end != "" {
				// The line that begins with zeros is lost.
				tc.end += at + "stdout F three\n"
			}
			appendTo(t, path(l), tc.end)
			l.Tail = tc.tail
			began := time.Now()
			if err := Read(t.Context(), l); err != nil || stdout.String() != tc.want {
				t.Errorf("%v, %q; want %q", err, stdout, tc.want)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A reading ends, although the log grows as fast as it is read.
func TestGrowingLog(t *testing.T) {
	l, _, _ := logOf(t, strings.Repeat(at+"stdout F line\n", 2000))
	lines := 0
	l.Stdout = writeFunc(func(p []byte) {
		if lines += bytes.Count(p, []byte{'\n'}); lines < 100_000 {
			appendTo(t, path(l), strings.Repeat(at+"stdout F line\n", 100))
		}
	})
	if err := Read(t.Context(), l); err != nil || lines != 2000 {
		t.Errorf("%v, %d lines; want the 2000 that there were", err, lines)
	}
}

// A follower notices the container's end while another container of the pod writes to the log, and ends soon.
func TestFollowOfALogThatNeverEnds(t *testing.T) {
	const length = 512 << 10
	line := at + "stdout F " + strings.Repeat("x", length) + "\n"
	l, _, _ := logOf(t, line)
	read, asked := int64(0), 0
	grow := true
	l.Stdout = writeFunc(func(p []byte) {
		if read += int64(len(p)); read > 1<<30 {
			grow = false // The test fails.
		}
		if grow && bytes.HasSuffix(p, []byte{'\n'}) {
			appendTo(t, path(l), line)
			check(t, os.Truncate(path(l), fileSize(t, path(l))))
		}
	})
	l.Running = func(context.Context) (bool, error) {
		asked++
		return asked < 2, nil
	}
	if err := Read(t.Context(), l); err != nil || !grow || asked != 2 || read < 2*turn || read > 20*turn {
		t.Errorf("%v, %d bytes after the container's state was requested %d times", err, read, asked)
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Stat(path, &st))
	return st.Size
}

// A follower ends after the container, although a pod creates new rotated logs as fast as they are read, and keeps them
// open.
func TestFollowThroughEndlessRotations(t *testing.T) {
	r := newRuntimeLog(t)
	r.write()
	files := 0
	make1 := func() {
		if files++; files < 10_000 {
			name := fmt.Sprintf("%s.20270102-030405-%03d", path(r.l), files)
			check(t, os.WriteFile(name, []byte(at+"stdout F more\n"), 0o600))
		}
	}
	r.l.Stdout = writeFunc(func([]byte) { make1() })
	asked := 0
	r.l.Running = func(context.Context) (bool, error) {
		if asked++; asked == 1 {
			r.rotate(0)
		}
		return asked < 4, nil
	}
	if err := Read(t.Context(), r.l); err != nil || files < 10 || files > 100 {
		t.Errorf("%v after %d files", err, files)
	}
}

// The time for writers of rotated logs that a follower waits after the container's end is bounded for all files together.
func TestFollowOfRotatedLogsThatStayOpen(t *testing.T) {
	r := newRuntimeLog(t)
	r.write()
	var holders []*os.File
	for i := range 4 {
		f, err := os.OpenFile(path(r.l), os.O_WRONLY, 0)
		check(t, err)
		holders = append(holders, f)
		if i == 0 {
			r.l.Running = func(context.Context) (bool, error) { return false, nil }
		}
		r.write()
		if i > 0 {
			r.rotate(i)
			r.write()
		}
	}
	defer func() {
		for _, f := range holders {
			check(t, f.Close())
		}
	}()
	var out bytes.Buffer
	r.l.Stdout = &out
	first := true
	r.l.Running = func(context.Context) (bool, error) {
		if first {
			first = false
			for i := range 4 {
				f, err := os.OpenFile(path(r.l), os.O_WRONLY, 0)
				check(t, err)
				holders = append(holders, f)
				r.rotate(10 + i)
				r.write()
			}
		}
		return false, nil
	}
	began := time.Now()
	err := Read(t.Context(), r.l)
	if took, limit := time.Since(began), writerLooks*lookPause*2; err != nil || took > limit {
		t.Errorf("%v; it took %v, want %v at most", err, took, limit)
	}
}

// Data without lines in a compressed log, however far it was compressed, ends the reading.
func TestCompressedNonsense(t *testing.T) {
	r := newRuntimeLog(t)
	r.write()
	r.l.Stdout = &bytes.Buffer{}
	asked := 0
	r.l.Running = func(context.Context) (bool, error) {
		if asked++; asked == 1 {
			r.rotate(0)
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, err := w.Write([]byte(at + "stdout F one\n"))
			check(t, err)
			for zeros, n := make([]byte, 1<<20), 0; n < 40; n++ {
				_, err := w.Write(zeros)
				check(t, err)
			}
			check(t, errors.Join(w.Close(), os.WriteFile(rotated(r.l, 5)+".gz", out.Bytes(), 0o600)))
		}
		return true, nil
	}
	if err := Read(t.Context(), r.l); !errors.Is(err, ErrFormat) {
		t.Errorf("%v; want %v", err, ErrFormat)
	}
}

// While there is no current log, the directory isn't listed at each change of the old one. It is after the container's
// end.
func TestListingIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := newRuntimeLog(t)
		f, err := open(run.l.Dir, run.l.Name)
		check(t, err)
		defer f.close()
		check(t, os.Rename(path(run.l), rotated(run.l, 0)))
		r := &reading{Log: run.l, ctx: t.Context()}
		successor := func() bool {
			next, err := r.successor(f)
			check(t, err)
			if next != nil {
				next.close()
			}
			return next != nil
		}
		if successor() {
			t.Error("there is a successor")
		}
		check(t, os.WriteFile(rotated(run.l, 1), nil, 0o600))
		if successor() {
			t.Error("the directory was listed again at once")
		}
		time.Sleep(listPause)
		if !successor() {
			t.Error("the next rotated log isn't found")
		}
		if r.ended = true; !successor() {
			t.Error("it isn't found after the container's end")
		}
	})
}
