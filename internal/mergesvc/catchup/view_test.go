package catchup_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	snapshot           = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
	snapshotAndUpdates = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES
)

func filtered(f *podconfigv1.PodFilter) *view.View { return mustView(view.Config{Filter: f}) }

// TestG10Coalesced: if labels or nodes decide, it isn't known whether a changed pod was in the view before. If
// it isn't in the view now, it is sent as if it had been; if it is, as if it hadn't been. If names decide, it
// is known.
func TestG10Coalesced(t *testing.T) {
	labels := filtered(&podconfigv1.PodFilter{LabelSelector: "tier=a", Names: []string{"web", "db"}})
	names := filtered(&podconfigv1.PodFilter{Names: []string{"web"}, Sources: []string{"api"}})
	nodes := filtered(&podconfigv1.PodFilter{Nodes: []string{"n1"}})
	scope := mustView(view.Config{Nodes: []string{"n1"}})
	for _, tc := range []struct {
		name         string
		view         *view.View
		before, then string
		want         []string
	}{
		{"changed and matches", labels, "x: web(label.tier=a)", "x: web(label.tier=a,image=2)", []string{"ADD api: web"}},
		{"came into the view", labels, "x: web(label.tier=b)", "x: web(label.tier=a)", []string{"ADD api: web"}},
		{"left the view", labels, "x: web(label.tier=a)", "x: web(label.tier=b)", []string{"REMOVE api: web"}},
		{"stayed out of it, which isn't known", labels, "x: web(label.tier=b)", "x: web(label.tier=b,image=2)",
			[]string{"REMOVE api: web"}},
		{"new in the view", labels, "x:", "x: web(label.tier=a)", []string{"ADD api: web"}},
		{"new outside", labels, "x:", "x: web(label.tier=b)", nil},
		{"gone, and perhaps it was in the view", labels, "x: web(label.tier=b)", "x:", []string{"REMOVE api: web"}},
		{"its status changed", labels, "x: web(label.tier=a)", "x: web(label.tier=a,phase=Running)", []string{"RECONCILE api: web"}},
		{"its status changed outside", labels, "x: web(label.tier=b)", "x: web(label.tier=b,phase=Running)", nil},
		{"another name changed", labels, "x: other(label.tier=a)", "x: other(label.tier=b)", nil},
		{"another name is gone", labels, "x: other(label.tier=a)", "x:", nil},
		{"being deleted", labels, "x: web(label.tier=a)", "x: web(label.tier=a,deleting=30)", []string{"ADD api: web"}},
		{"the name decides: changed", names, "x: web() db()", "x: web(image=2) db(image=2)", []string{"UPDATE api: web"}},
		{"the name decides: being deleted", names, "x: web() db()", "x: web(deleting=30) db(deleting=30)", []string{"DELETE api: web"}},
		{"the name decides: gone", names, "x: web() db()", "x:", []string{"REMOVE api: web"}},
		{"moved to another node", nodes, "x: web(node=n1)", "x: web(node=n2)", []string{"REMOVE api: web"}},
		{"gone from the caller's node", scope, "x: web(node=n1)", "x:", []string{"REMOVE api: web"}},
		{"gone from a node that isn't the caller's, which must not know of it", scope, "x: web(node=n2)", "x:", nil},
		{"changed on a node that isn't the caller's", scope, "x: web(node=n2)", "x: web(node=n2,image=2)", nil},
		{"moved to this node", nodes, "x: web(node=n2)", "x: web(node=n1)", []string{"ADD api: web"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"api"}})
			l.set("api", tc.before)
			at := l.Number()
			l.set("api", tc.then)
			got, _ := catchup.Coalesced(l.State(), at, tc.view)
			wantWords(t, "what became of the pod", got, tc.want...)
		})
	}
}

// TestG10FromKnown: a known pod that isn't in the view now is removed at once, whether its source was read or
// not.
func TestG10FromKnown(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("api", "x: web(label.tier=a) db(label.tier=b) new(label.tier=a) other(label.tier=b)")
	web, db := held("api", "web(label.tier=a)"), held("api", "db(label.tier=b)")
	v := filtered(&podconfigv1.PodFilter{LabelSelector: "tier=a", Sources: []string{"file", "api"}})
	for _, tc := range []struct {
		name  string
		known []catchup.Known
		want  []string
	}{
		{"nothing is known", nil, []string{"ADD api: new web"}},
		{"a pod that doesn't match", []catchup.Known{web, db}, []string{"REMOVE api: db", "ADD api: new"}},
		{"another version of one that doesn't match", []catchup.Known{web, held("api", "db(label.tier=a)")},
			[]string{"REMOVE api: db", "ADD api: new"}},
		{"a pod of a source that isn't ready", []catchup.Known{web, held("file", "f()")}, []string{"ADD api: new"}},
		{"a pod of a source that isn't asked for", []catchup.Known{web, held("http", "h()")},
			[]string{"REMOVE http: h", "ADD api: new"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := catchup.FromKnown(l.State(), tc.known, v)
			wantWords(t, "the difference", got, tc.want...)
		})
	}
}

// TestG10Unseen: of sources that the consumer doesn't see, not even readiness is sent.
func TestG10Unseen(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("file", "x: f()")
	l.set("api", "x: a()")
	st, v := l.State(), mustView(view.Config{Sources: []string{"api"}})
	wantWords(t, "fresh", catchup.Fresh(st, v), "ADD api: a")
	wantWords(t, "set", catchup.Set(st, 0, v), "SET api: a", "ADD api:")
	coalesced, _ := catchup.Coalesced(st, 0, v)
	wantWords(t, "coalesced", coalesced, "ADD api: a")
	coalesced, _ = catchup.Coalesced(l.states[1], 0, v)
	wantWords(t, "coalesced, where nothing is seen", coalesced)
}

// TestG7StrangerOfUnseenSource: a pod of a source that isn't configured is given up when all are ready, also if the
// last one to become ready isn't seen.
func TestG7StrangerOfUnseenSource(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	v := filtered(&podconfigv1.PodFilter{Sources: []string{"file", "http"}})
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{held("http", "h()")}, v)
	rev := l.set("file", "")
	wantWords(t, "file is ready", pending.Settle(v.Changes(rev, nil), rev.Number, l.at(rev.Number)), "ADD file:")
	rev = l.set("api", "x: a()")
	wantWords(t, "api is ready", pending.Settle(v.Changes(rev, nil), rev.Number, l.at(rev.Number)), "REMOVE http: h")
}

// TestG7RemovalOfAnUnreadySource: a consumer keeps the pods that a SET lacks of a source that isn't ready, so a
// REMOVE before the SET reports known removals.
func TestG7RemovalOfAnUnreadySource(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}, Tombstones: 2})
	l.set("api", "x: a() b()")                                    // 1
	l.set("file", "bad: [held]\na: web(label.tier=a) db() job()") // 2
	l.set("file", "bad: [held]\na: web(label.tier=b) db() job()") // 3
	l.set("api", "x: b()")                                        // 4
	l.set("file", "bad: [held]\na: web(label.tier=b) job()")      // 5
	l.set("file", "bad: [held]\na: web(label.tier=b)")            // 6
	all := mustView(view.Config{Mode: snapshot})
	tierA := mustView(view.Config{Mode: snapshotAndUpdates, Filter: &podconfigv1.PodFilter{LabelSelector: "tier=a"}})
	for _, tc := range []struct {
		what     string
		view     *view.View
		from, to uint64
		want     []string
	}{
		{"a removal of api, which is ready", all, 3, 4, []string{"SET file: b db job web"}},
		{"a removal of file, which isn't", all, 4, 5, []string{"REMOVE file: db", "SET file: b job web"}},
		{"both", all, 3, 5, []string{"REMOVE file: db", "SET file: b job web"}},
		{"a pod left the view", tierA, 2, 3, []string{"REMOVE file: web", "SET file:"}},
	} {
		got, ok := catchup.Coalesced(l.states[tc.to], tc.from, tc.view)
		if !ok {
			t.Errorf("%s: Coalesced returns false; want true, because no tombstone was dropped", tc.what)
		}
		wantWords(t, tc.what, got, tc.want...)
	}
	st := l.State()
	if _, ok := catchup.Coalesced(st, 3, all); ok {
		t.Error("Coalesced from a revision whose tombstones were dropped returns true; want false")
	}
	wantWords(t, "a SET, where a removal was forgotten", catchup.Set(st, 3, all), "REMOVE file: db job", "SET file: b web")
	wantWords(t, "a SET in the incremental mode", catchup.Set(st, 3, everything), "REMOVE file: db job", "SET file: b web")
	wantWords(t, "a SET for a consumer of which nothing is known", catchup.Set(st, st.Number, all), "SET file: b web")
}

// TestG7Snapshot: in the snapshot modes every catch-up is a SET, if there is any change that the mode sends.
func TestG7Snapshot(t *testing.T) {
	for _, mode := range []podconfigv1.NotificationMode{snapshot, snapshotAndUpdates} {
		t.Run(mode.String(), func(t *testing.T) {
			l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
			v := mustView(view.Config{Mode: mode, Filter: &podconfigv1.PodFilter{Namespaces: []string{"default"}}})
			l.set("api", "x: web() db()")                                      // 1
			l.set("api", "x: web() db(phase=Running)")                         // 2
			l.set("api", "x: web() db(phase=Running) s(ns=kube)")              // 3
			l.set("api", "x: web(image=2) db(phase=Running) s(ns=kube)")       // 4
			l.set("api", "x: web(image=2) db(phase=Running) s(ns=kube) new()") // 5
			l.set("api", "x: web(image=2) s(ns=kube) new()")                   // 6
			l.set("file", "")                                                  // 7
			coalesced := func(from, to uint64) string {
				changes, ok := catchup.Coalesced(l.states[to], from, v)
				if !ok {
					t.Errorf("Coalesced from %d to %d returns false; want true, because no tombstone was dropped", from, to)
				}
				return words(changes)
			}
			for _, tc := range []struct {
				what     string
				from, to uint64
				want     string
			}{
				{"nothing", 4, 4, ""},
				{"a status", 1, 2, ""},
				{"a pod that isn't seen", 2, 3, ""},
				{"an update", 3, 4, "SET file: db web\n"},
				{"a new pod", 4, 5, "SET file: db new web\n"},
				{"a removal", 5, 6, "SET file: new web\n"},
				{"a source became ready", 6, 7, "SET file: new web\nADD file:\n"},
				{"all", 0, 7, "SET file: new web\nADD file:\nADD api:\n"},
			} {
				if got := coalesced(tc.from, tc.to); got != tc.want {
					t.Errorf("%s: from revision %d to %d\n%swant\n%s", tc.what, tc.from, tc.to, got, tc.want)
				}
			}
			wantWords(t, "fresh", catchup.Fresh(l.State(), v), "SET file: new web")

			st := l.states[6]
			same := []catchup.Known{held("api", "web(image=2)"), held("api", "new()")}
			for _, tc := range []struct {
				what  string
				known []catchup.Known
				want  []string
			}{
				{"everything is known", same, nil},
				{"everything but a status", []catchup.Known{held("api", "web(image=2,phase=Running)"), same[1]}, nil},
				{"a pod is missing", same[1:], []string{"SET file: new web"}},
				{"a pod is gone: the SET tells, as api is ready", append(same[:2:2], held("api", "gone()")), []string{"SET file: new web"}},
				{"file isn't ready", append(same[:2:2], held("file", "f()")), nil},
				{"of file it isn't seen: no SET would take it away", append(same[:2:2], held("file", "f(ns=kube)")),
					[]string{"REMOVE file: f", "SET file: new web"}},
			} {
				changes, pending := catchup.FromKnown(st, tc.known, v)
				wantWords(t, "from known pods, "+tc.what, changes, tc.want...)
				rev, _, _ := l.Next(6)
				got := pending.Settle(v.Changes(rev, l.at(7)), 7, l.at(7))
				wantWords(t, "file speaks, and "+tc.what, got, "SET file: new web")
			}
		})
	}
}
