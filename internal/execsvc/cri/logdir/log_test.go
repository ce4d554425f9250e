package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

const rotatedName = "0.log.20260102-030405"

// logIn returns the log pod/main/0.log, and the directory of all logs and that of this one.
func logIn(t *testing.T, files ...string) (l *Log, logs, dir string) {
	t.Helper()
	logs = t.TempDir()
	dir = filepath.Join(logs, "pod", "main")
	check(t, os.MkdirAll(dir, 0o750))
	for _, name := range files {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o640))
	}
	l, err := Open(logs, "pod/main/0.log")
	check(t, err)
	t.Cleanup(l.Close)
	return l, logs, dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestOpenRefusesLinks(t *testing.T) {
	_, logs, dir := logIn(t, "0.log")
	check(t, os.Symlink(dir, filepath.Join(logs, "pod", "link")))
	for name, want := range map[string]error{"pod/link/0.log": openfile.ErrOutside, "../main/0.log": openfile.ErrOutside, "pod/none/0.log": fs.ErrNotExist} {
		if _, err := Open(logs, name); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", name, err, want)
		}
	}
}

// Only regular files count, and the number of names that are read is bounded.
func TestRotated(t *testing.T) {
	l, _, dir := logIn(t, "0.log", "0.log.1", rotatedName+".gz", "1.log.20260102-030405")
	check(t, os.Symlink("/etc/passwd", filepath.Join(dir, "0.log.20260102-030406")))
	check(t, unix.Mkfifo(filepath.Join(dir, "0.log.20260102-030407"), 0o600))
	check(t, os.Mkdir(filepath.Join(dir, "0.log.20260102-030408"), 0o700))
	for range 2 {
		if list, err := l.Rotated(); len(list) != 1 || list[0].Name != rotatedName+".gz" || err != nil {
			t.Errorf("%+v, %v", list, err)
		}
	}
	after := func(name string) string {
		r, ok := Parse("0.log", name)
		next, err := l.Successor(r)
		if next == nil || !ok || err != nil {
			return fmt.Sprint(next, ok, err)
		}
		return next.Name
	}
	if got := after("0.log.20260102-030404"); got != rotatedName+".gz" {
		t.Errorf("after an older one is %s", got)
	}
	if got := after(rotatedName); got != "<nil> true <nil>" {
		t.Errorf("after the newest one is %s", got)
	}
	check(t, os.WriteFile(filepath.Join(dir, rotatedName), nil, 0o600))
	if got := after("0.log.20260102-030404"); got != rotatedName {
		t.Errorf("after an older one is %s; want the one that isn't compressed yet", got)
	}
	check(t, os.Remove(filepath.Join(dir, rotatedName)))
	for i := range maxEntries + 2000 {
		check(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("0.log.20260102-030409-%03d", i+1)), nil, 0o600))
	}
	list, err := l.Rotated()
	if !errors.Is(err, ErrTooManyFiles) || len(list) == 0 || len(list) > maxEntries+1 {
		t.Errorf("%d files, %v; want %v", len(list), err, ErrTooManyFiles)
	}
}

func TestFiles(t *testing.T) {
	l, _, dir := logIn(t, "0.log", rotatedName)
	check(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	check(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for _, name := range []string{"link", "fifo"} {
		if _, err := l.OpenFile(name); err == nil {
			t.Errorf("%s was opened", name)
		}
		var kind *openfile.KindError
		if _, err := l.Stat(name); !errors.As(err, &kind) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.Create(name, &unix.Stat_t{Mode: 0o600}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("create %s: %v", name, err)
		}
		if err := l.Rename("0.log", name); !errors.Is(err, fs.ErrExist) {
			t.Errorf("rename to %s: %v", name, err)
		}
	}
	st, err := l.Stat("0.log")
	check(t, err)
	made, err := l.Create("new", &st)
	check(t, err)
	check(t, made.Close())
	check(t, l.Rename("new", "newer"))
	if like, err := l.Stat("newer"); err != nil || like.Mode != st.Mode || like.Uid != st.Uid {
		t.Errorf("%v, %o; want %o", err, like.Mode, st.Mode)
	}
	check(t, errors.Join(l.Remove("link"), l.Remove("fifo"), l.Remove("newer"), l.Remove("newer")))
	if got := names(t, dir); !slices.Equal(got, []string{"0.log", rotatedName}) {
		t.Errorf("%q", got)
	}
}

func TestRemoveAll(t *testing.T) {
	_, logs, dir := logIn(t, "0.log", rotatedName, rotatedName+".gz", rotatedName+".tmp", "0.log.other", "1.log", "1.log.20260102-030405")
	check(t, os.Mkdir(filepath.Join(dir, "0.log.20260102-030408"), 0o700))
	check(t, RemoveAll(logs, "pod/main/0.log"))
	if got := names(t, dir); !slices.Equal(got, []string{"0.log.20260102-030408", "0.log.other", "1.log", "1.log.20260102-030405"}) {
		t.Errorf("%q", got)
	}
	// Neither a missing directory, one that is a link, nor a log that is a directory keeps a container from being removed.
	secret := t.TempDir()
	check(t, os.WriteFile(filepath.Join(secret, "0.log"), nil, 0o600))
	check(t, os.Symlink(secret, filepath.Join(logs, "pod", "link")))
	check(t, os.MkdirAll(filepath.Join(logs, "pod", "dir", "0.log", "sub"), 0o700))
	for _, name := range []string{"pod/none/0.log", "pod/link/0.log", "pod/dir/0.log", "pod/main/1.log/0.log"} {
		if err := RemoveAll(logs, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := names(t, secret); len(got) != 1 {
		t.Errorf("a file outside was removed: %q", got)
	}
}

func TestWritersOf(t *testing.T) {
	l, _, dir := logIn(t, "0.log")
	w, err := os.OpenFile(filepath.Join(dir, "0.log"), os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	f, err := l.OpenFile("0.log")
	check(t, err)
	defer func() { _ = f.Close() }()
	if got := WritersOf(f); got != HasWriter {
		t.Errorf("while it is written: %v", got)
	}
	check(t, w.Close())
	for range 2 {
		if got := WritersOf(f); got != NoWriter {
			t.Errorf("after it was closed: %v", got)
		}
	}
	// The lease was released.
	w, err = os.OpenFile(filepath.Join(dir, "0.log"), os.O_APPEND|os.O_WRONLY|unix.O_NONBLOCK, 0)
	check(t, err)
	check(t, w.Close())
}
