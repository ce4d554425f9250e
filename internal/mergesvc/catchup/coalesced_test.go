package catchup_test

import (
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// mentions reports whether the changes report that the source is ready: by ADD, UPDATE or DELETE, or by a SET of its
// label.
func mentions(changes []revision.Change, source string) bool {
	return slices.ContainsFunc(changes, func(c revision.Change) bool {
		switch c.Op {
		case revision.SET, revision.ADD, revision.UPDATE, revision.DELETE:
			return c.Source == source
		default:
			return false
		}
	})
}

// TestCoalesced checks the changes of one pod between two streams.
func TestCoalesced(t *testing.T) {
	for _, tc := range []struct {
		name string
		// sets of the api source; the consumer is at the revision of the first.
		sets []string
		want []string
	}{
		{"nothing", []string{"x: web()"}, nil},
		{"many updates are one", []string{"x: web()", "x: web(image=2)", "x: web(image=3)"}, []string{"UPDATE api: web"}},
		{"there and back is still told", []string{"x: web()", "x: web(image=2)", "x: web()"}, []string{"UPDATE api: web"}},
		{"status only", []string{"x: web()", "x: web(phase=Running)"}, []string{"RECONCILE api: web"}},
		{"spec and status", []string{"x: web()", "x: web(phase=Running)", "x: web(image=2,phase=Running)"}, []string{"UPDATE api: web"}},
		{"deleted", []string{"x: web()", "x: web(deleting=30)"}, []string{"DELETE api: web"}},
		{"gone", []string{"x: web()", "x: web(deleting=30)", "x:"}, []string{"REMOVE api: web"}},
		{"came and went", []string{"x:", "x: web()", "x:"}, nil},
		{"came again under its UID", []string{"x: web()", "x:", "x: web()"}, []string{"REMOVE api: web", "ADD api: web"}},
		{"came again twice", []string{"x: web()", "x:", "x: web()", "x:", "x: web()"}, []string{"REMOVE api: web", "ADD api: web"}},
		{"came again and went", []string{"x: web()", "x:", "x: web()", "x:"}, []string{"REMOVE api: web"}},
		{"new, gone and new", []string{"x:", "x: web()", "x:", "x: web()"}, []string{"ADD api: web"}},
		{"renamed under its UID", []string{"x: web(uid=u)", "x: shop(uid=u)"}, []string{"REMOVE api: u", "ADD api: u"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"api"}})
			for _, text := range tc.sets {
				l.set("api", text)
			}
			got, ok := catchup.Coalesced(l.State(), 1, everything)
			if !ok {
				t.Fatal("Coalesced returns false; want true, because no tombstone was dropped")
			}
			wantWords(t, "what became of the pod", got, tc.want...)
		})
	}
}

// TestCoalescedOrder: the ops come in the kubelet's order, and within each op the sources by priority.
func TestCoalescedOrder(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "http", "api"}})
	l.set("api", "x: a-gone() a-new2() a-up() a-stat()")
	l.set("file", "x: f-gone() f-del() f-up()")
	then := l.State().Number
	l.set("http", "")
	l.set("api", "x: a-up(image=2) a-stat(phase=Running) a-new()")
	l.set("file", "x: f-del(deleting=1) f-up(image=2) f-new()")
	got, _ := catchup.Coalesced(l.State(), then, everything)
	wantWords(t, "the catch-up", got, "REMOVE file: f-gone", "REMOVE api: a-gone a-new2", "ADD file: f-new", "ADD api: a-new",
		"UPDATE file: f-up", "UPDATE api: a-up", "DELETE file: f-del", "ADD http:", "RECONCILE api: a-stat")
}

// TestFreshAndSet: a fresh consumer receives ADDs. A consumer without a valid cursor receives one SET of
// everything.
func TestFreshAndSet(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	wantWords(t, "fresh, of nothing", catchup.Fresh(l.State(), everything))
	wantWords(t, "set, of nothing", catchup.Set(l.State(), 0, everything), "SET file:")
	l.set("api", "x: a() b(deleting=30)")
	l.set("file", "x: f()") // 2
	wantWords(t, "fresh", catchup.Fresh(l.State(), everything), "ADD file: f", "ADD api: a b")
	wantWords(t, "set", catchup.Set(l.State(), 2, everything), "SET file: a b f")
	wantWords(t, "set for a consumer that was at 1, before file was ready", catchup.Set(l.State(), 1, everything),
		"SET file: a b f", "ADD file:")
}
