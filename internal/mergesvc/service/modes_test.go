package service_test

import (
	"fmt"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	incremental        = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	snapshotAndUpdates = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES
	snapshot           = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
)

// in returns a request in the given mode.
func in(mode podconfigv1.NotificationMode, cursor *podconfigv1.Cursor, known ...*podconfigv1.KnownPod) *podconfigv1.WatchPodUpdatesRequest {
	req := reference(cursor, known...)
	req.Mode = mode
	return req
}

// TestModes checks the table of the kubelet's podStorage.Merge, one change of each kind: added and removed
// pods, and a source's first set, are a SET of all sources' pods. Changes are separate ops, or a SET too.
// RECONCILE isn't sent.
func TestModes(t *testing.T) {
	n := start(t, options{})
	streams := map[podconfigv1.NotificationMode]*stream{}
	for mode, first := range map[podconfigv1.NotificationMode][]string{
		incremental: {"synced"}, snapshotAndUpdates: {"SET file:", "synced"}, snapshot: {"SET file:", "synced"},
	} {
		streams[mode] = n.watch(in(mode, nil))
		streams[mode].want(first...)
	}
	nothing := []string{}
	for _, tc := range []struct {
		name, source, set string
		// updates and snapshot are the ops in the two modes.
		updates, snapshot []string
	}{
		{"an empty first set", "api", "", []string{"SET api:"}, []string{"SET api:"}},
		{"a first set with pods", "file", "a: a() b() c()", []string{"SET file: a b c"}, []string{"SET file: a b c"}},
		{"of all sources", "api", "x: x()", []string{"SET api: a b c x"}, []string{"SET api: a b c x"}},
		{"an update", "file", "a: a(image=2) b() c()", []string{"UPDATE file: a"}, []string{"SET file: a b c x"}},
		{"a deletion", "file", "a: a(image=2) b(deleting=5) c()", []string{"DELETE file: b"}, []string{"SET file: a b c x"}},
		{"a status", "file", "a: a(image=2) b(deleting=5) c(phase=Running)", nothing, nothing},
		{"a removal", "file", "a: a(image=2) c(phase=Running)", []string{"SET file: a c x"}, []string{"SET file: a c x"}},
		{
			"all at once", "file", "a: a(image=3) c(deleting=1) d()",
			[]string{"SET file: a c d x", "UPDATE file: a", "DELETE file: c"}, []string{"SET file: a c d x"},
		},
		{"an equal set", "file", "a: a(image=3) c(deleting=1) d()", nothing, nothing},
		{"the last goes", "api", "", []string{"SET api: a c d"}, []string{"SET api: a c d"}},
	} {
		n.set(tc.source, tc.set)
		for mode, want := range map[podconfigv1.NotificationMode][]string{snapshotAndUpdates: tc.updates, snapshot: tc.snapshot} {
			if len(want) == 0 {
				// The next unit shows that nothing was sent before: its revision is the next but one.
				continue
			}
			if u := streams[mode].want(want...); u.cursor.GetRevision() != n.hub.History().Number() {
				t.Errorf("%s in %v: the revision is %d; want %d", tc.name, mode, u.cursor.GetRevision(), n.hub.History().Number())
			}
		}
	}
}

// TestModesFresh: a fresh consumer of a snapshot mode gets one SET, empty if there are no pods, as one unit with
// synced.
func TestModesFresh(t *testing.T) {
	n := start(t, options{})
	for _, mode := range []podconfigv1.NotificationMode{snapshotAndUpdates, snapshot} {
		u := n.watch(in(mode, nil)).want("SET file:", "synced")
		if u.messages[0].GetUpdate().GetSourceReady() || u.messages[0].GetUpdate().GetObservedTime() != nil {
			t.Errorf("%v: the SET is %v; want that file isn't ready, and no observed_time", mode, u.messages[0])
		}
	}
	n.set("file", "a: a() b()")
	n.set("api", "x: c()")
	for _, mode := range []podconfigv1.NotificationMode{snapshotAndUpdates, snapshot} {
		u := n.watch(in(mode, nil)).want("SET file: a b c", "synced")
		if !u.messages[0].GetUpdate().GetSourceReady() {
			t.Errorf("%v: the SET says that file isn't ready; want ready", mode)
		}
		for _, p := range u.pods() {
			if want := map[string]string{"c": "api"}[p.GetRef().GetUid()]; want != "" && p.GetSource() != want {
				t.Errorf("%v: pod c is of %s; want its own source, %s", mode, p.GetSource(), want)
			}
		}
	}
}

// TestG7Modes: in a snapshot mode too, a cursor is resumed from in exact history, or coalesced into one SET. If
// that isn't possible, the difference to known_pods or a SET is sent. A revision that changes nothing sends
// nothing (G5).
func TestG7Modes(t *testing.T) {
	n := start(t, options{revisions: 3})
	n.set("api", "")
	n.set("file", "a: a() b()")
	first := n.watch(in(snapshotAndUpdates, nil)).want("SET file: a b", "synced")
	at := first.cursor
	n.set("file", "a: a(image=2) b()")
	n.set("file", "a: a(image=2) b(phase=Running)")
	n.set("file", "a: a(image=2) c()")

	exact := n.watch(in(snapshotAndUpdates, at))
	exact.want("UPDATE file: a")
	// The consumer needs the ready sources before it can remove the pods that the SET lacks.
	exact.want("heartbeat")
	exact.want("SET file: a c")
	current := exact.want("synced").cursor

	n.set("file", "a: a(image=2) c(phase=Running)")
	n.watch(in(snapshotAndUpdates, at)).want("SET file: a c", "synced")

	// A status is never sent in these modes.
	quiet := n.watch(in(snapshotAndUpdates, current))
	if got := quiet.want("synced").cursor.GetRevision(); got != n.hub.History().Number() {
		t.Errorf("synced at revision %d; want %d", got, n.hub.History().Number())
	}
	for i := range 4 {
		n.set("file", fmt.Sprintf("a: a(image=2) c(phase=%d)", i))
	}
	n.watch(in(snapshotAndUpdates, current)).want("synced")

	other := &podconfigv1.Cursor{InstanceId: "other", Revision: 7}
	n.watch(in(snapshot, other)).want("SET file: a c", "synced")
	now := n.watch(in(snapshot, nil)).want("SET file: a c", "synced")
	n.watch(in(snapshot, other, known(now)...)).want("synced")
	n.watch(in(snapshot, other, known(first)...)).want("SET file: a c", "synced")
}

// TestG2SnapshotsOfTheirRevision: a consumer that is behind receives the SET of each revision, not of a later
// one.
func TestG2SnapshotsOfTheirRevision(t *testing.T) {
	n := start(t, options{})
	n.set("api", "x: x()")
	at := n.watch(in(snapshot, nil)).want("SET file: x", "synced").cursor
	var want []string
	for i := range 20 {
		n.set("file", fmt.Sprintf("a: a-%02d() b(image=%d)", i, i))
		want = append(want, fmt.Sprintf("SET file: a-%02d b x", i))
	}
	s := n.watch(in(snapshot, at))
	s.want("heartbeat")
	for i, line := range want {
		if u := s.want(line); u.cursor.GetRevision() != uint64(i+2) {
			t.Errorf("%s comes with revision %d; want %d", line, u.cursor.GetRevision(), i+2)
		}
	}
	s.want("synced")
}

// TestG7ModeChange: a cursor of another mode belongs to another view: the consumer is caught up by its known pods, or
// by a SET.
func TestG7ModeChange(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: a() b()")
	s := n.watch(in(incremental, nil))
	u := s.want("ADD file: a b")
	at := s.want("synced").cursor
	n.set("file", "a: a(image=2) b()")
	n.watch(in(snapshot, at)).want("SET file: a b", "synced")
	n.watch(in(snapshot, at, known(u)...)).want("SET file: a b", "synced")
	moved := n.watch(in(snapshotAndUpdates, at, known(u)...)).want("SET file: a b", "synced")
	n.watch(in(snapshotAndUpdates, moved.cursor)).want("synced")
	back := n.watch(in(incremental, moved.cursor, known(u)...))
	back.want("UPDATE file: a")
	back.want("synced")
}
