package applied_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/disktest"
	"github.com/podstream/podstream/internal/sources/applied"
	"github.com/podstream/podstream/internal/write"
)

// TestWrite: a set is handed over after the start, after each write, and after a restart. A write returns once its set was
// taken; a request without a change makes none.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "applied")
	n := start(t, dir)
	n.wantNext("")
	published := 0
	r := request(t, "one", pod("a", "1"), pod("b", "1"), secret)
	r.Published = func(p write.Plan) { published = len(p.Steps) }
	if plan, err := n.Write(t.Context(), r); err != nil || len(plan.Steps) != 3 || published != 3 {
		t.Fatalf("Write: %v, %v, published %d", plan, err, published)
	}
	all := "applied/one/Secret/default/s: Secret"
	n.wantNext("applied/one/default/a: 1; applied/one/default/b: 1; " + all)
	n.mustPut(pod("a", "1"))
	n.mustPut(pod("a", "2"))
	n.wantNext("applied/one/default/a: 2; applied/one/default/b: 1; " + all)
	dry := request(t, "one", pod("a", "3"))
	dry.DryRun = true
	if _, err := n.Write(t.Context(), dry); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	refused := request(t, "one", pod("a", "3"))
	no := errors.New("no")
	refused.Check = func(write.Plan) error { return no }
	if _, err := n.Write(t.Context(), refused); !errors.Is(err, no) {
		t.Errorf("a write that Check refuses: %v", err)
	}
	remove := &write.Request{Change: write.Change{Caller: "alice", Delete: []write.Key{write.KeyOf("", "", "b")}}, Check: refused.Check}
	remove.Check = func(write.Plan) error { return nil }
	if _, err := n.Write(t.Context(), remove); err != nil {
		t.Fatal(err)
	}
	n.wantNext("applied/one/default/a: 2; " + all)
	n.stop()
	if _, err := n.Write(t.Context(), request(t, "one", pod("c", "1"))); !errors.Is(err, write.ErrUnready) {
		t.Errorf("a write after the end: %v; want ErrUnready", err)
	}
	n = start(t, dir)
	n.wantNext("applied/one/default/a: 2; " + all)
	docs, err := n.Documents()
	if d := docs[write.KeyOf("", "", "a")]; err != nil || d == nil || string(d.Text) != pod("a", "2") || d.Caller != "alice" ||
		d.Set != "one" || !d.Applied.Equal(time.Unix(1e9, 0)) || d.Digest != write.DigestOf(d.Text) {
		t.Errorf("after the restart, a is %+v, %v", d, err)
	}
}

// TestPlace: the directory and the store are the daemon's alone.
func TestPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "applied")
	n := start(t, dir)
	n.wantNext("")
	n.mustPut(pod("a", "1"))
	for path, want := range map[string]os.FileMode{dir: os.ModeDir | 0o700, filepath.Join(dir, storeFile): 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has the mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v; want the store only, whatever the names in a request are", entries, err)
	}
}

// TestPlanted: where another file is in the place of the directory, the store or its draft, nothing is read, written or
// removed, and no write is taken. The control is the same place without it.
func TestPlanted(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir, victim string){
		"nothing": nil,
		"a link for the directory": func(t *testing.T, dir, victim string) {
			check(t, os.Mkdir(filepath.Join(filepath.Dir(victim), "d"), 0o700))
			check(t, os.Symlink(filepath.Join(filepath.Dir(victim), "d"), dir))
		},
		"a directory that others may write to": func(t *testing.T, dir, _ string) {
			check(t, os.Mkdir(dir, 0o777))
			check(t, os.Chmod(dir, 0o777))
		},
		"a link for the store": func(t *testing.T, dir, victim string) {
			check(t, os.Mkdir(dir, 0o700))
			check(t, os.Symlink(victim, filepath.Join(dir, storeFile)))
		},
		"a link to nothing for the store": func(t *testing.T, dir, victim string) {
			check(t, os.Mkdir(dir, 0o700))
			check(t, os.Symlink(victim+".none", filepath.Join(dir, storeFile)))
		},
		"a hard link for the store": func(t *testing.T, dir, victim string) {
			check(t, os.Mkdir(dir, 0o700))
			check(t, os.Link(victim, filepath.Join(dir, storeFile)))
		},
		"a link for the draft": func(t *testing.T, dir, victim string) {
			check(t, os.Mkdir(dir, 0o700))
			check(t, os.Symlink(victim, filepath.Join(dir, storeFile+".new")))
		},
		"a directory for the store": func(t *testing.T, dir, _ string) {
			check(t, os.MkdirAll(filepath.Join(dir, storeFile), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir, victim := filepath.Join(root, "applied"), filepath.Join(root, "victim")
			check(t, os.WriteFile(victim, []byte("precious"), 0o600))
			if plant != nil {
				plant(t, dir, victim)
			}
			n := start(t, dir)
			got, err := n.next(), n.put(pod("a", "1"))
			if plant == nil {
				if got != "" || err != nil {
					t.Errorf("without a planted file: %q, %v", got, err)
				}
				return
			}
			if !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "podconfigd's own") || !errors.Is(err, write.ErrUnready) {
				t.Errorf("the set is %q, and Write returns %v; want an error of both", got, err)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("the file that the link leads to has %q, %v", text, err)
			}
			if _, err := os.Lstat(victim + ".none"); err == nil {
				t.Error("the file that the link leads to was made")
			}
		})
	}
}

// TestFullDisk: a full disk refuses a write and keeps the documents there are. Once it has space, writes are taken again.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(disktest.Small(t), "applied")
	n := start(t, dir)
	n.wantNext("")
	n.mustPut(pod("a", "1"))
	n.wantNext("applied/one/default/a: 1")
	free := disktest.FillUp(t, filepath.Dir(dir))
	large := pod("b", "1") + "# " + strings.Repeat("x", 64<<10) + "\n"
	if err := n.put(large, pod("a", "2")); !errors.Is(err, write.ErrFull) {
		t.Errorf("a write to a full disk: %v; want ErrFull", err)
	}
	docs, err := n.Documents()
	if err != nil || len(docs) != 1 || string(docs[write.KeyOf("", "", "a")].Text) != pod("a", "1") {
		t.Errorf("after that, the documents are %v, %v; want a as it was", docs, err)
	}
	free()
	n.mustPut(large, pod("a", "2"))
	n.stop()
	n = start(t, dir)
	n.wantNext("applied/one/default/a: 2; applied/one/default/b: 1")
}

// TestUnconfirmedWrite: if the disk takes a change and fails to confirm it, the error doesn't say that nothing has changed, and what the
// store has is published. The same request then finds the change.
func TestUnconfirmedWrite(t *testing.T) {
	n := start(t, filepath.Join(t.TempDir(), "applied"))
	n.wantNext("")
	n.mustPut(pod("a", "1"))
	n.wantNext("applied/one/default/a: 1")
	n.FailConfirming(func() error { return fmt.Errorf("%w: %w", boltfile.ErrUnwritable, unix.EIO) })
	if err := n.put(pod("a", "2")); !errors.Is(err, write.ErrUnconfirmed) || errors.Is(err, write.ErrFull) || errors.Is(err, write.ErrUnready) {
		t.Errorf("%v; want ErrUnconfirmed", err)
	}
	n.wantNext("applied/one/default/a: 2")
	n.FailConfirming(nil)
	n.mustPut(pod("a", "2"))
	docs, err := n.Documents()
	if err != nil || string(docs[write.KeyOf("", "", "a")].Text) != pod("a", "2") {
		t.Errorf("the documents are %v, %v", docs, err)
	}
}

// TestNote: the note of a write is passed on by the next Source if Published wasn't called, and not otherwise.
func TestNote(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "applied")
	notes := make(chan string, 10)
	recovering := func(c *applied.Config) {
		c.Recovered = func(note []byte) { notes <- string(note) }
		c.PublishTime = time.Millisecond
	}
	n := start(t, dir, recovering)
	n.wantNext("")
	r := request(t, "one", pod("a", "1"))
	r.Note = func(p write.Plan) []byte { return []byte(p.Steps[0].Action.String()) }
	n.hold.Lock()
	if _, err := n.Write(t.Context(), r); !errors.Is(err, write.ErrUnpublished) {
		t.Fatal(err)
	}
	n.hold.Unlock()
	n.stop()
	n = start(t, dir, recovering)
	if got := <-notes; got != "created" {
		t.Errorf("the note is %q; want created", got)
	}
	n.stop()
	n = start(t, dir)
	n.wantNext("applied/one/default/a: 1")
	r = request(t, "one", pod("a", "2"))
	r.Note = func(write.Plan) []byte { return []byte("published") }
	if _, err := n.Write(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	n.stop()
	n = start(t, dir, recovering)
	n.wantNext("applied/one/default/a: 2")
	n.stop()
	if len(notes) > 0 {
		t.Errorf("a note of a published write is passed on: %q", <-notes)
	}
}

// TestHandedOverAgain: the documents are handed over again at each interval, and an unchanged one is the same origin.
func TestHandedOverAgain(t *testing.T) {
	n := start(t, filepath.Join(t.TempDir(), "applied"))
	n.wantNext("")
	n.mustPut(pod("a", "1"))
	first := <-n.sets
	n.clock.Step(applied.CheckFrequency)
	select {
	case second := <-n.sets:
		if second.Origins[0] != first.Origins[0] || !second.ReadTime.After(first.ReadTime) {
			t.Errorf("the second set is %+v; want the origins of %+v, read later", second, first)
		}
	case <-time.After(patience):
		t.Fatal("no set after the interval")
	}
	if diff := cmp.Diff(0, len(n.sets)); diff != "" {
		t.Errorf("more sets: %s", diff)
	}
}
