package file

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

// heldAsWritten checks that the file is held because it is being written.
func heldAsWritten(t *testing.T, set manifest.Set, base string) {
	t.Helper()
	o := origin(t, set, base)
	if !o.Held || len(o.Findings) != 1 || o.Findings[0].Severity != manifest.Error || o.Findings[0].Message != errBeingWritten.Error() {
		t.Errorf("%s is held: %v, findings %+v; want it held as it %q", base, o.Held, o.Findings, errBeingWritten)
	}
}

// TestEndlessWriter: a file that a slow writer has open is never read, even if it ends with a complete
// document: it is held, and read when the writer closes it.
func TestEndlessWriter(t *testing.T) {
	t.Parallel()
	leasable(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	two := pod("a", "v1") + "---\n" + pod("b", "v1")
	write(t, path, two)
	r := run(t, Config{Path: dir})
	r.expect("a.yaml a=v1 b=v1")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	_, err = io.WriteString(f, pod("a", "v2"))
	must(t, err)
	heldAsWritten(t, r.expect("a.yaml held"), "a.yaml")
	// Another write changes nothing.
	_, err = io.WriteString(f, "---\n"+pod("b", "v2"))
	must(t, err)
	must(t, f.Close())
	r.expect("a.yaml a=v2 b=v2")
}

// TestPausedWriterAtStart: the same applies at the start: a writer that hasn't written for a long time may not
// be done.
func TestPausedWriterAtStart(t *testing.T) {
	t.Parallel()
	leasable(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	_, err = io.WriteString(f, pod("a", "v1"))
	must(t, err)
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, long, long))
	r := run(t, Config{Path: dir})
	heldAsWritten(t, r.expect("a.yaml held"), "a.yaml")
	must(t, f.Close())
	r.expect("a.yaml a=v1")
}

// TestJustWrittenAtStartWithoutLeases: if the kernel doesn't report writers, a file that was written just
// before the start may be incomplete. The others don't wait for it.
func TestJustWrittenAtStartWithoutLeases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml"), filepath.Join(dir, "c.yaml")
	for _, path := range []string{a, b, c} {
		write(t, path, pod("p", "v1"))
	}
	s := steps(dir)
	s.writersOf = func(*os.File) writers { return writersUnknown }
	for path, written := range map[string]time.Time{a: s.now, b: s.now.Add(-time.Minute), c: s.now.Add(time.Hour)} {
		must(t, os.Chtimes(path, written, written))
	}
	expectShown(t, "at the start", s.after(0), "a.yaml held", "b.yaml p=v1", "c.yaml p=v1")
	heldAsWritten(t, s.set, "a.yaml")
	expectShown(t, "after a quiet period", s.after(s.QuietPeriod), "a.yaml p=v1", "b.yaml p=v1", "c.yaml p=v1")
}

// step is a loop without a watch, whose time a test controls.
type step struct {
	*loop
	now time.Time
	set manifest.Set
}

func steps(path string) *step {
	s := &step{now: time.Now()}
	cfg := New(Config{Path: path, Node: "node", Logger: slog.New(slog.DiscardHandler)}).cfg
	s.loop = &loop{
		Config: cfg, writersOf: writersOf, waits: map[string]*wait{},
		open: func(string) (*watch, error) { return &watch{close: func() error { return nil }}, nil },
		out:  func(set manifest.Set) { s.set = set },
	}
	return s
}

// after advances the time, and does what is due then.
func (s *step) after(d time.Duration) []string {
	s.now = s.now.Add(d)
	if !s.relistAt.After(s.now) {
		s.relist(context.Background(), s.now)
	}
	s.lookAgain(context.Background(), s.now)
	s.emit()
	return show(s.set)
}

func expectShown(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: the Set is %q, want %q", when, got, want)
	}
}

// TestRestlessFile: a file that has changed at every check is held, and read once it stops changing, even if
// its timestamps can't be used.
func TestRestlessFile(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"clocks agree": 0, "its clock is ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "a.yaml")
			s := steps(dir)
			s.writersOf = func(*os.File) writers { return writersUnknown }
			touch := func() {
				at := s.now.Add(ahead)
				must(t, os.Chtimes(path, at, at))
			}
			write(t, path, pod("a", "v1"))
			past := s.now.Add(-time.Minute)
			must(t, os.Chtimes(path, past, past))
			s.now = s.now.Add(time.Second) // The inode was changed just now.
			expectShown(t, "at the start", s.after(0), "a.yaml a=v1")

			write(t, path, pod("a", "v2"))
			touch()
			s.await(path, s.now)
			for passed := s.QuietPeriod; passed < settleLimit; passed += s.QuietPeriod {
				s.now = s.now.Add(s.QuietPeriod)
				touch()
				expectShown(t, "in unrest", s.after(0), "a.yaml a=v1")
			}
			s.now = s.now.Add(s.QuietPeriod)
			touch()
			expectShown(t, "at the limit", s.after(0), "a.yaml held")
			heldAsWritten(t, s.set, "a.yaml")
			if due := s.next(); !due.Equal(s.now.Add(recheckInterval)) {
				t.Errorf("it is looked at again after %v, want %v", due.Sub(s.now), recheckInterval)
			}
			s.now = s.now.Add(recheckInterval)
			touch()
			expectShown(t, "beyond the limit", s.after(0), "a.yaml held")
			expectShown(t, "at rest", s.after(recheckInterval), "a.yaml a=v2")
		})
	}
}

// TestRenameUnderAnEndlessWriter: a removed file waits for the next new one without a limit if that has the
// same inode, and up to the limit if it may have.
func TestRenameUnderAnEndlessWriter(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
		write(t, a, pod("a", "v1"))
		s := steps(dir)
		writing := writersNone
		s.writersOf = func(*os.File) writers { return writing }
		expectShown(t, "at the start", s.after(time.Second), "a.yaml a=v1")

		writing = writersSome
		gone := "b.yaml held"
		want := []string{gone}
		if same {
			rename(t, a, b)
			want = []string{"a.yaml a=v1", gone}
		} else {
			write(t, b, pod("b", "v1"))
			must(t, os.Remove(a))
		}
		s.await(a, s.now)
		s.create(t.Context(), b, a, s.now)
		expectShown(t, "within the limit", s.after(settleLimit-time.Millisecond), "a.yaml a=v1")
		expectShown(t, "at the limit", s.after(time.Millisecond), want...)
		expectShown(t, "beyond the limit", s.after(recheckInterval), want...)
		writing = writersNone
		pods := map[bool]string{true: "b.yaml a=v1", false: "b.yaml b=v1"}
		expectShown(t, "in the end", s.after(recheckInterval), pods[same])
	}
}

// TestMovedAwayAndReplaced: a file that is moved away and replaced at once, by one that can't be read yet, seems to
// be renamed to its own name. It is still read.
func TestMovedAwayAndReplaced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		make       func(t *testing.T, path string)
		prepare    func(*Source)
	}{
		{"by an empty file", "a.yaml held", func(t *testing.T, path string) { write(t, path, "") }, func(*Source) {}},
		{"by a dangling link", "a.yaml held", func(t *testing.T, path string) { must(t, os.Symlink("nowhere", path)) }, func(*Source) {}},
		{"without leases", "a.yaml a=v2", func(t *testing.T, path string) { write(t, path, pod("a", "v2")) }, noLeases},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, elsewhere := t.TempDir(), t.TempDir()
			path := filepath.Join(dir, "a.yaml")
			write(t, path, pod("a", "v1"))
			past := time.Now().Add(-time.Minute)
			must(t, os.Chtimes(path, past, past))
			test.make(t, filepath.Join(elsewhere, "new"))
			r := run(t, Config{Path: dir}, test.prepare)
			r.expect("a.yaml a=v1")
			rename(t, path, filepath.Join(elsewhere, "backup"))
			rename(t, filepath.Join(elsewhere, "new"), path)
			r.expect(test.want)
		})
	}
}
