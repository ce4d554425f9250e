package containerlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const at = "2026-01-02T03:04:05.000000001Z "

// logOf creates a log with that content, and returns a Log that reads it into the buffers.
func logOf(t *testing.T, content string) (l Log, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	l = Log{Dir: t.TempDir(), Name: "pod/main/0.log", Stdout: stdout, Stderr: stderr}
	check(t, os.MkdirAll(filepath.Dir(path(l)), 0o750))
	check(t, os.WriteFile(path(l), []byte(content), 0o600))
	return l, stdout, stderr
}

func path(l Log) string { return filepath.Join(l.Dir, l.Name) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(t, err)
	_, err = f.WriteString(text)
	check(t, errors.Join(err, f.Close()))
}

func TestRead(t *testing.T) {
	content := at + "stdout F one\n" + at + "stderr F two\n" + "nonsense\n" + at + "stdout P thr\n" + at + "stdout F:x ee\n" + at + "stdout F \n" +
		"2026-01-02T03:04:06+01:00 stdout F old\n" + at + "stdout F half"
	for _, c := range []struct {
		name, stdout, stderr string
		change               func(*Log)
	}{
		{"all", "one\nthree\n\nold\nhalf", "two\n", func(*Log) {}},
		{"one stream", "", "two\n", func(l *Log) { l.Stdout = nil }},
		{"no line", "", "", func(l *Log) { l.Tail = new(int64) }},
		{"the last lines", "\nold\n", "", func(l *Log) { l.Tail = new(int64(2)) }},
		{"more lines than there are", "one\nthree\n\nold\nhalf", "two\n", func(l *Log) { l.Tail = new(int64(20)) }},
		{"lines, not too far back", "old\nhalf", "", func(l *Log) { l.Tail, l.Back = new(int64(20)), 100 }},
		{"no byte", "", "", func(l *Log) { l.Limit = new(int64) }},
		{"bytes", "one\nth", "two\n", func(l *Log) { l.Limit = new(int64(10)) }},
		{"since", "one\nthree\n\nhalf", "two\n", func(l *Log) { l.Since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }},
		{
			"times", at + "one\n" + at + "three\n" + at + "\n2026-01-02T03:04:06.000000000+01:00 old\n" + at + "half", at + "two\n",
			func(l *Log) { l.Timestamps = true },
		},
	} {
		l, stdout, stderr := logOf(t, content)
		c.change(&l)
		if err := Read(t.Context(), l); err != nil || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: %v, %q, %q; want %q, %q", c.name, err, stdout, stderr, c.stdout, c.stderr)
		}
	}
}

// Long logs are read from the last lines on, wherever the chunks end.
func TestTail(t *testing.T) {
	var all []string
	for i := range 3000 {
		all = append(all, at+"stdout F "+strings.Repeat("x", i%50)+fmt.Sprint(i)+"\n")
	}
	l, stdout, _ := logOf(t, strings.Join(all, ""))
	for _, n := range []int{1, 2, 255, 256, 1000, 2999, 3000, 3001} {
		stdout.Reset()
		l.Tail = new(int64(n))
		want := strings.ReplaceAll(strings.Join(all[max(0, len(all)-n):], ""), at+"stdout F ", "")
		if err := Read(t.Context(), l); err != nil || stdout.String() != want {
			t.Errorf("%d lines: %v; %d bytes, want %d", n, err, stdout.Len(), len(want))
		}
	}
}

// A file that replaces a log is neither followed, waited for nor quoted.
func TestNotALog(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	check(t, os.WriteFile(secret, []byte(at+"stdout F SECRET\nroot:SECRET\n"), 0o600))
	elsewhere := filepath.Dir(secret)
	for name, c := range map[string]struct {
		plant func(path string) error
		want  error
	}{
		"a link":            {func(path string) error { return os.Symlink(secret, path) }, openfile.ErrOutside},
		"a link to nowhere": {func(path string) error { return os.Symlink("/nowhere", path) }, openfile.ErrOutside},
		"a FIFO":            {func(path string) error { return unix.Mkfifo(path, 0o644) }, &openfile.KindError{}},
		"a directory":       {func(path string) error { return os.Mkdir(path, 0o755) }, &openfile.KindError{}},
		"nothing":           {func(string) error { return nil }, fs.ErrNotExist},
		"another kind":      {func(path string) error { return os.WriteFile(path, []byte("root:SECRET\n"), 0o600) }, ErrFormat},
		"a linked directory": {func(path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.Remove(dir), os.WriteFile(filepath.Join(elsewhere, "0.log"), []byte(at+"stdout F SECRET\n"), 0o600), os.Symlink(elsewhere, dir))
		}, openfile.ErrOutside},
	} {
		l, stdout, stderr := logOf(t, "")
		check(t, os.Remove(path(l)))
		check(t, c.plant(path(l)))
		err := Read(t.Context(), l)
		var kind, wanted *openfile.KindError
		if wantsKind := errors.As(c.want, &wanted); wantsKind && !errors.As(err, &kind) || !wantsKind && !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
		if stdout.Len()+stderr.Len() > 0 || strings.Contains(fmt.Sprint(err), "SECRET") {
			t.Errorf("%s: it is read: %q, %v", name, stdout, err)
		}
	}
}

func TestLeasedLog(t *testing.T) {
	l, _, _ := logOf(t, at+"stdout F one\n")
	f, err := os.OpenFile(path(l), os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	check(t, err)
	if err := Read(t.Context(), l); !errors.Is(err, openfile.ErrLeased) {
		t.Errorf("%v", err)
	}
}

// Long lines are read whole, each as one line of its kind, and an endless line takes no memory; the reading ends with
// its context.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 10*maxPart)
	content := at + "stdout F one\n" + at + "stdout F " + long + "\n" + at + "stdout P " + long + "\n" + at + "stdout F end\n" +
		"nonsense " + long + "\n" + at + "stderr F " + long + "\n" + at + "stdout F two\n"
	for name, c := range map[string]struct {
		stdout, stderr string
		change         func(*Log)
	}{
		"all":            {"one\n" + long + "\n" + long + "end\ntwo\n", long + "\n", func(*Log) {}},
		"times":          {at + "one\n" + at + long + "\n" + at + long + "end\n" + at + "two\n", at + long + "\n", func(l *Log) { l.Timestamps = true }},
		"one stream":     {"", long + "\n", func(l *Log) { l.Stdout = nil }},
		"the last lines": {"two\n", long + "\n", func(l *Log) { l.Tail = new(int64(2)) }},
		"bytes":          {"one\n" + long[:2*maxPart+3], "", func(l *Log) { l.Limit = new(int64(2*maxPart + 7)) }},
		"since":          {"", "", func(l *Log) { l.Since = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }},
	} {
		l, stdout, stderr := logOf(t, content)
		c.change(&l)
		if err := Read(t.Context(), l); err != nil || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: %v, %d and %d bytes; want %d and %d", name, err, stdout.Len(), stderr.Len(), len(c.stdout), len(c.stderr))
		}
	}
	l, _, _ := logOf(t, at+"stdout F "+strings.Repeat("x", 64<<20-len(at+"stdout F ")))
	var wrote size
	l.Stdout = &wrote
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Read(t.Context(), l)
	runtime.ReadMemStats(&after)
	if want := size(64<<20 - len(at+"stdout F ")); err != nil || wrote != want {
		t.Errorf("%v, %d bytes; want %d", err, wrote, want)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d KiB were allocated", got>>10)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for _, tail := range []*int64{nil, new(int64(5))} {
		if l.Tail = tail; !errors.Is(Read(ctx, l), gone) {
			t.Error("it goes on after its context's end")
		}
	}
}

// size counts the bytes written.
type size int

func (s *size) Write(p []byte) (int, error) {
	*s += size(len(p))
	return len(p), nil
}

// A followed log is read as it grows, each line once it is complete, and through rotations.
func TestFollow(t *testing.T) {
	l, stdout, _ := logOf(t, at+"stdout F one\n")
	l.Watch = new(Watch)
	step := 0
	l.Running = func(context.Context) (bool, error) {
		step++
		switch step {
		case 1:
			appendTo(t, path(l), at+"stdout F two\n"+at+"stdout F thr")
		case 2:
			if stdout.String() != "one\ntwo\n" {
				t.Errorf("%q", stdout)
				return false, nil
			}
			appendTo(t, path(l), "ee\n")
		case 3:
			appendTo(t, path(l), at+"stdout F four\n")
			check(t, os.Rename(path(l), path(l)+".1"))
			appendTo(t, path(l), at+"stdout F five\n")
		case 4:
			for !strings.Contains(stdout.String(), "five") {
				step--
				return true, nil
			}
			appendTo(t, path(l), at+"stdout F six\n")
		case 5:
			appendTo(t, path(l), at+"stdout F seven\n")
			check(t, os.Rename(path(l), path(l)+".2"))
			appendTo(t, path(l), at+"stdout F end")
			return false, nil
		}
		return true, nil
	}
	began := time.Now()
	if err := Read(t.Context(), l); err != nil || stdout.String() != "one\ntwo\nthree\nfour\nfive\nsix\nseven\nend" {
		t.Errorf("%v, %q", err, stdout)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A follow ends with its context, and when another kind of file replaces the log.
func TestFollowEnds(t *testing.T) {
	l, _, _ := logOf(t, at+"stdout F one\n")
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	l.Running = func(context.Context) (bool, error) { cancel(gone); return true, nil }
	if err := Read(ctx, l); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	l.Running = func(context.Context) (bool, error) {
		if os.Remove(path(l)) == nil {
			check(t, unix.Mkfifo(path(l), 0o600))
		}
		return true, nil
	}
	var kind *openfile.KindError
	if err := Read(t.Context(), l); !errors.As(err, &kind) {
		t.Errorf("%v", err)
	}
}
