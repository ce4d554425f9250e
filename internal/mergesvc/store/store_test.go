package store_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// TestNewStore: a missing store is created, readable only by its owner, and the next start opens it.
func TestNewStore(t *testing.T) {
	for _, noSync := range []bool{false, true} {
		s := newSetting(t)
		s.cfg.NoSync = noSync
		first := s.contents(t)
		if diff := cmp.Diff([]string{first.Instance + " at 0, horizon 0"}, describe(first)); diff != "" || first.Instance == "" {
			t.Errorf("a new store holds %v; want an instance id and nothing else", describe(first))
		}
		info, err := os.Stat(s.cfg.Path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("the file has mode %v, %v; want 0600: it holds environment variables", info.Mode(), err)
		}
		if diff := cmp.Diff(describe(first), describe(s.contents(t))); diff != "" {
			t.Errorf("the new store, opened again (-first +again):\n%s", diff)
		}
		if names := s.aside(t); len(names) > 0 {
			t.Errorf("beside the store there are %v; want nothing", names)
		}
		other := newSetting(t).contents(t)
		if other.Instance == first.Instance {
			t.Error("two new stores have the same instance id")
		}
	}
}

// TestRoundTrip commits random revisions, some of them together, and opens the store again at intervals: it has
// the model's contents (G6).
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "store")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := settingIn(dir)
		s.cfg.Tombstones = rapid.IntRange(1, 9).Draw(t, "limit")
		d := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "draw") }
		st, c, err := store.Open(s.cfg)
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(s.cfg.Tombstones, c)
		reopen := func() {
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			if st, c, err = store.Open(s.cfg); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(describe(m.contents()), describe(c)); diff != "" {
				t.Fatalf("after revision %d the store holds (-want +got):\n%s", m.number, diff)
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			var revs []*revision.Revision
			for range rapid.IntRange(0, 4).Draw(t, "together") {
				revs = append(revs, drawRevision(d, m.number+uint64(len(revs))+1))
			}
			if err := st.Commit(revs); err != nil {
				t.Fatal(err)
			}
			m.apply(revs...)
			switch d(6) {
			case 0:
				reopen()
			case 1:
				if err := st.Replace(m.contents()); err != nil {
					t.Fatal(err)
				}
			}
		}
		reopen()
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if log := s.log.String(); strings.Contains(log, "aside") {
			t.Fatalf("a good store was set aside:\n%s", log)
		}
	})
}

// TestPodStays: the store returns a pod as consumers received it, with its first-seen time, and stale.
func TestPodStays(t *testing.T) {
	s := newSetting(t)
	st, _ := s.open(t)
	want := newPod("u1", "web", 7, 10)
	mustCommit(t, st, rev(1, change(revision.ADD, want)))
	mustClose(t, st)
	got := s.contents(t).Pods
	if len(got) != 1 {
		t.Fatalf("the store holds %d pods; want 1", len(got))
	}
	if !apiequality.Semantic.DeepEqual(want.Object, got[0].Object) {
		t.Errorf("the pod has changed in the store (-want +got):\n%s", cmp.Diff(want.Object, got[0].Object))
	}
	if identity(got[0]) != identity(want) || got[0].Origin != want.Origin {
		t.Errorf("the pod is\n%s of %s; want\n%s of %s", identity(got[0]), got[0].Origin, identity(want), want.Origin)
	}
	if !got[0].Stale {
		t.Error("the pod isn't stale; want it stale, because its source hasn't been read")
	}
}

// TestOps follows one UID through every op.
func TestOps(t *testing.T) {
	v := func(number uint64) *revision.Pod { return newPod("u", "web", number, 0) }
	settled := rev(9)
	settled.Settled = []*revision.Pod{v(9)}
	ready := rev(10, change(revision.ADD))
	ready.BecameReady = true
	s := newSetting(t)
	for _, step := range []struct {
		name      string
		rev       *revision.Revision
		wantImage string
		wantTombs int
	}{
		{"ADD", rev(1, change(revision.ADD, v(1))), "web:1", 0},
		{"UPDATE", rev(2, change(revision.UPDATE, v(2))), "web:2", 0},
		{"RECONCILE", rev(3, change(revision.RECONCILE, v(3))), "web:3", 0},
		{"DELETE", rev(4, change(revision.DELETE, v(4))), "web:4", 0},
		{"REMOVE", rev(5, change(revision.REMOVE, v(4))), "", 1},
		{"RESTORE", rev(6, change(revision.RESTORE, v(6))), "web:6", 1},
		{"REMOVE and ADD", rev(7, change(revision.REMOVE, v(6)), change(revision.ADD, v(7))), "web:7", 2},
		{"REMOVE of what isn't there", rev(8, change(revision.REMOVE, newPod("other", "x", 1, 0))), "web:7", 3},
		{"settled", settled, "web:9", 3},
		{"became ready", ready, "web:9", 3},
	} {
		st, _ := s.open(t)
		mustCommit(t, st, step.rev)
		mustClose(t, st)
		c := s.contents(t)
		image := ""
		for _, p := range c.Pods {
			image += p.Object.Spec.Containers[0].Image
		}
		if image != step.wantImage || len(c.Tombstones) != step.wantTombs || c.Number != step.rev.Number {
			t.Errorf("after %s: image %q, %d tombstones, revision %d; want %q, %d, %d", step.name, image, len(c.Tombstones), c.Number,
				step.wantImage, step.wantTombs, step.rev.Number)
		}
		if got, want := c.ReadySources["file"], map[bool]uint64{true: 10}[step.rev.BecameReady]; got != want {
			t.Errorf("after %s: file was ready at revision %d; want %d", step.name, got, want)
		}
	}
}

// TestCommitRefuses: an invalid commit changes nothing, and the next valid one succeeds.
func TestCommitRefuses(t *testing.T) {
	s := newSetting(t)
	st, _ := s.open(t)
	mustCommit(t, st, rev(1, change(revision.ADD, newPod("u1", "a", 1, 0))))
	stranger := rev(2)
	stranger.Instance = "another"
	for name, revs := range map[string][]*revision.Revision{
		"a revision that is there already": {rev(1)},
		"a gap":                            {rev(3)},
		"a gap within":                     {rev(2, change(revision.REMOVE, newPod("u1", "a", 1, 0))), rev(4)},
		"an op that isn't one of a merge":  {rev(2, change(revision.SET, newPod("u2", "b", 2, 0)))},
		"an unknown op":                    {rev(2, change(99))},
		"a pod without uid":                {rev(2, change(revision.ADD, newPod("", "b", 2, 0)))},
		"a uid that is too long":           {rev(2, change(revision.ADD, newPod(strings.Repeat("u", 40_000), "b", 2, 0)))},
		"a revision of another instance":   {stranger},
	} {
		if err := st.Commit(revs); err == nil || errors.Is(err, store.ErrUnwritable) || errors.Is(err, store.ErrDamaged) {
			t.Errorf("Commit of %s: %v; want an error that blames the revision", name, err)
		}
	}
	mustCommit(t, st, rev(2, change(revision.ADD, newPod("u2", "b", 2, 0))))
	mustClose(t, st)
	if c := s.contents(t); c.Number != 2 || len(c.Pods) != 2 || len(c.Tombstones) != 0 {
		t.Errorf("the store holds %v; want two pods at revision 2", describe(c))
	}
}

// TestFewerTombstones: a lowered limit applies from the next commit on.
func TestFewerTombstones(t *testing.T) {
	s := newSetting(t)
	st, _ := s.open(t)
	for n := range uint64(5) {
		mustCommit(t, st, rev(n+1, change(revision.REMOVE, newPod(fmt.Sprint("u", n), "n", n, 0))))
	}
	mustClose(t, st)
	s.cfg.Tombstones = 2
	st, _ = s.open(t)
	mustCommit(t, st, rev(6))
	mustClose(t, st)
	if c := s.contents(t); len(c.Tombstones) != 2 || c.Tombstones[0].Removed != 4 || c.Horizon != 3 {
		t.Errorf("the store holds %v; want the tombstones of 4 and 5, and horizon 3", describe(c))
	}
}
