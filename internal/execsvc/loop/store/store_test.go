package store_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRestart: the state after a restart is that before it.
func TestRestart(t *testing.T) {
	s := newSetting(t)
	st, first, stop := s.open(t)
	if diff := diff(store.State{Statuses: map[types.UID]store.Status{}, Ends: map[types.UID]store.End{}}, first); diff != "" {
		t.Fatalf("a new store (-want +got):\n%s", diff)
	}
	a, b, c, d, e := newPod("a", "file", 1), newPod("b", "http", 1), newPod("c", "api", 1), newPod("d", "api", 1), newPod("e", "file", 1)
	st.Apply(event(1, change(client.Add, a, e), change(client.Restore, b), change(client.Add, c, d)))
	a, c, d = newPod("a", "file", 2), newPod("c", "api", 2), newPod("d", "api", 2)
	st.Apply(event(2, change(client.Remove, reference(e)), change(client.Update, a), change(client.Delete, c), change(client.Reconcile, d)))

	now := s.clock.Now()
	st.SetStatus("a", podStatus(v1.PodPending, ""), now)
	st.SetStatus("a", podStatus(v1.PodRunning, "it runs"), now.Add(time.Hour))
	st.SetStatus("gone", podStatus(v1.PodFailed, ""), now)
	st.SetStatus("forgotten", podStatus(v1.PodFailed, ""), now)
	end := store.End{Namespace: "default", Name: "web-c", Source: "api", Grace: 30, Deadline: now.Add(30 * time.Second), Removed: true, Object: c.Object}
	failed := store.End{Grace: 2, Failure: &status.Failure{Reason: "DeadlineExceeded", Message: "too long"}}
	for uid, end := range map[types.UID]store.End{"c": end, "a": failed, "forgotten": end} {
		if err := st.SetEnd(t.Context(), uid, end); err != nil {
			t.Fatal(err)
		}
	}
	allocated := map[types.UID]resize.Allocation{"a": allocation(2), "gone": allocation(3), "dropped": allocation(4), "forgotten": allocation(5)}
	for uid, a := range allocated {
		st.SetAllocation(uid, &a)
	}
	st.SetAllocation("dropped", nil)
	st.SetAllocation("never seen", nil)
	st.Drop("forgotten")
	st.Drop("never seen")
	st.SetRemovals([]time.Time{now.Add(-time.Second), now})
	st.Drop("dropped")
	stop()

	end.UID, failed.UID = "c", "a"
	want := store.State{
		Cursor: cursor(2), Pods: []client.Pod{a, b, c, d},
		Statuses: map[types.UID]store.Status{
			"a":    {Status: podStatus(v1.PodRunning, "it runs"), Changed: now.Add(time.Hour)},
			"gone": {Status: podStatus(v1.PodFailed, ""), Changed: now},
		},
		Ends:        map[types.UID]store.End{"c": end, "a": failed},
		Allocations: map[types.UID]resize.Allocation{"a": allocated["a"], "gone": allocated["gone"]},
		Removals:    []time.Time{now.Add(-time.Second), now},
	}
	for range 2 {
		got := s.state(t)
		if diff := diff(want, got); diff != "" {
			t.Fatalf("after a restart (-want +got):\n%s", diff)
		}
		if !got.Ends["a"].Deadline.IsZero() {
			t.Errorf("a deadline that wasn't set is %s; want the zero time", got.Ends["a"].Deadline)
		}
	}
	if info, err := os.Stat(s.cfg.Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file's mode: %v, %v; want 0600", info, err)
	}
}

// TestRemovalSetsEnd: the removal of a pod and its end are written together. Of a current termination only Removed and
// an earlier deadline change. A later SetEnd doesn't clear Removed.
func TestRemovalSetsEnd(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	now := time.UnixMilli(1000)
	failed := &status.Failure{Reason: "Evicted"}
	pods := []client.Pod{newPod("idle", "file", 1), newPod("ending", "file", 1), newPod("sooner", "file", 1)}
	st.Apply(event(1, change(client.Add, pods...)))
	for _, uid := range []types.UID{"ending", "sooner"} {
		if err := st.SetEnd(t.Context(), uid, store.End{Grace: 9, Deadline: now, Failure: failed}); err != nil {
			t.Fatal(err)
		}
	}
	st.Apply(event(2, change(client.Remove, reference(pods[0]), reference(pods[1]), reference(pods[2]))),
		store.End{UID: "idle", Grace: 30, Deadline: now.Add(time.Minute), Removed: true},
		store.End{UID: "ending", Grace: 30, Deadline: now.Add(time.Minute), Removed: true},
		store.End{UID: "sooner", Grace: 1, Deadline: now.Add(-time.Second), Removed: true})
	if err := st.SetEnd(t.Context(), "ending", store.End{Grace: 8, Deadline: now, Failure: failed}); err != nil {
		t.Fatal(err)
	}
	stop()
	want := store.State{Cursor: cursor(2), Statuses: map[types.UID]store.Status{}, Ends: map[types.UID]store.End{
		"idle":   {UID: "idle", Grace: 30, Deadline: now.Add(time.Minute), Removed: true},
		"ending": {UID: "ending", Grace: 8, Deadline: now, Removed: true, Failure: failed},
		"sooner": {UID: "sooner", Grace: 1, Deadline: now.Add(-time.Second), Removed: true, Failure: failed},
	}}
	if diff := diff(want, s.state(t)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

// TestStopping: the containers that got their SIGTERM are restored after a restart, also after other changes of the
// pod's end.
func TestStopping(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	now := time.UnixMilli(1000)
	st.SetStopping("a", "c0", now)
	if err := st.SetEnd(t.Context(), "a", store.End{Grace: 9, Deadline: now}); err != nil {
		t.Fatal(err)
	}
	st.SetStopping("a", "c1", now)
	mustFlush(t, st)
	st.SetStopping("a", "c2", now.Add(time.Second))
	if err := st.SetEnd(t.Context(), "a", store.End{Grace: 3, Deadline: now}); err != nil {
		t.Fatal(err)
	}
	stop()
	want := map[types.UID]store.End{
		// c0 got it before the store had the pod's end.
		"a": {UID: "a", Grace: 3, Deadline: now, Stopping: map[string]time.Time{"c1": now, "c2": now.Add(time.Second)}},
	}
	if diff := diff(store.State{Ends: want}, store.State{Ends: s.state(t).Ends}); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

// TestSourceChange: a UID that moves from one source to another is stored, in either order of the ops.
func TestSourceChange(t *testing.T) {
	from, to := newPod("a", "file", 1), newPod("a", "api", 1)
	for name, ops := range map[string][]client.Change{
		"first removed": {change(client.Remove, reference(from)), change(client.Add, to)},
		"first added":   {change(client.Add, to), change(client.Remove, reference(from))},
	} {
		s := newSetting(t)
		st, _, stop := s.open(t)
		st.Apply(event(1, change(client.Add, from)))
		st.Apply(event(2, ops...))
		stop()
		if pods := s.state(t).Pods; len(pods) != 1 || pods[0].Source != "api" {
			t.Errorf("%s: the pods are %v; want the one of api", name, pods)
		}
	}
}

// TestUselessPods: pods that couldn't be restored are not stored; other pods of the event are.
func TestUselessPods(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	st.Apply(event(1, change(client.Add, reference(newPod("a", "file", 1)), newPod("", "file", 1), newPod("b", "file", 1))))
	mustFlush(t, st)
	stop()
	if pods := s.state(t).Pods; len(pods) != 1 || pods[0].UID != "b" {
		t.Errorf("the pods are %v; want b only", pods)
	}
}

// TestCursorAlone: an event without a cursor keeps the last cursor. An event with only a cursor calls Committed again,
// because the report may have to go to another podconfigd.
func TestCursorAlone(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	st.Apply(event(7))
	mustFlush(t, st)
	st.Apply(client.Event{Synced: true})
	mustFlush(t, st)
	st.Apply(event(7))
	mustFlush(t, st)
	stop()
	close(s.committed)
	var committed []uint64
	for revision := range s.committed {
		committed = append(committed, revision)
	}
	if !slices.Equal(committed, []uint64{7, 7}) {
		t.Errorf("Committed got the cursors %v; want 7 and 7", committed)
	}
	if got := s.state(t).Cursor.GetRevision(); got != 7 {
		t.Errorf("the cursor is at %d; want 7", got)
	}
}

// TestNeverWaits: changes during a write don't block, and are all in the next write.
func TestNeverWaits(t *testing.T) {
	s := newSetting(t)
	writing, hold, writes := make(chan uint64), make(chan struct{}), 0
	s.cfg.Committed = func(c *podconfigv1.Cursor) {
		writes++
		writing <- c.GetRevision()
		<-hold
	}
	st, _, stop := s.open(t)
	st.Apply(event(1, change(client.Add, newPod("a", "file", 1))))
	<-writing
	for revision := uint64(2); revision <= 100; revision++ {
		st.Apply(event(revision, change(client.Update, newPod("a", "file", int(revision)))))
		st.SetStatus("a", podStatus(v1.PodRunning, ""), s.clock.Now())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := st.SetEnd(ctx, "a", store.End{Grace: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("SetEnd whose caller doesn't wait: %v; want context.Canceled", err)
	}
	close(hold)
	if revision := <-writing; revision != 100 {
		t.Errorf("the second write is at revision %d; want 100", revision)
	}
	mustFlush(t, st)
	stop()
	if writes != 2 {
		t.Errorf("there were %d writes with a cursor; want 2", writes)
	}
	state := s.state(t)
	if state.Pods[0].SpecDigest != "spec-100" || state.Ends["a"].Grace != 1 || state.Statuses["a"].Status == nil {
		t.Errorf("the state is %+v; want the last version, its status and its end", state)
	}
}

// TestCommittedIsOnDisk: when Committed is called, the cursor and its pods are on disk.
func TestCommittedIsOnDisk(t *testing.T) {
	s := newSetting(t)
	at := 0
	s.cfg.Committed = func(c *podconfigv1.Cursor) {
		at++
		file, err := os.ReadFile(s.cfg.Path)
		copied := settingIn(t.TempDir())
		if err == nil {
			err = os.WriteFile(copied.cfg.Path, file, 0o600)
		}
		if err != nil {
			t.Error(err)
			return
		}
		_, state, err := store.Open(copied.cfg)
		if err != nil || state.Cursor.GetRevision() != c.GetRevision() || len(state.Pods) != int(c.GetRevision()) {
			t.Errorf("at cursor %d the disk has %d pods at %d, %v", c.GetRevision(), len(state.Pods), state.Cursor.GetRevision(), err)
		}
	}
	st, _, stop := s.open(t)
	for revision := uint64(1); revision <= 5; revision++ {
		st.Apply(event(revision, change(client.Add, newPod(string(rune('a'+revision)), "file", 1))))
		mustFlush(t, st)
	}
	stop()
	if at != 5 {
		t.Errorf("Committed got %d cursors; want 5", at)
	}
}

func TestLocked(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	mustFlush(t, st)
	if other, _, err := store.Open(s.cfg); other != nil || !errors.Is(err, store.ErrLocked) {
		t.Errorf("Open of a store that is open: %v, %v; want ErrLocked", other, err)
	}
	stop()
	s.state(t)
}

func TestClosed(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	st.Apply(event(3))
	stop()
	st.Apply(event(4))
	if err := st.Flush(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Flush after Run: %v; want ErrClosed", err)
	}
	if err := st.SetEnd(t.Context(), "a", store.End{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("SetEnd after Run: %v; want ErrClosed", err)
	}
	if got := s.state(t).Cursor.GetRevision(); got != 3 {
		t.Errorf("the cursor is at %d; want 3, the last one before Run ended", got)
	}
}
