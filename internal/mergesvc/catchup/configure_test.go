package catchup_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// settle returns the ops that the consumer receives of the revision.
func (l *daemon) settle(p *catchup.Pending, rev *revision.Revision) []revision.Change {
	p.Configure(l.states[rev.Number].Sources)
	return p.Settle(rev.Changes, rev.Number, l.at(rev.Number))
}

// TestPendingOfASourceThatGoes: a removed source won't decide; pods that wait for it now wait for all other
// sources.
func TestPendingOfASourceThatGoes(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "http", "api"}})
	l.set("file", "")
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{held("api", "lost()")}, everything)
	wantWords(t, "api goes, http isn't ready", l.settle(pending, l.configure("http", "file")))
	wantWords(t, "http speaks", l.settle(pending, l.set("http", "")), "REMOVE api: lost", "ADD http:")
	if !pending.Empty() {
		t.Error("something is open still; want nothing once all are ready")
	}

	_, pending = catchup.FromKnown(l.State(), []catchup.Known{held("api", "lost()")}, everything)
	if !pending.Empty() {
		t.Error("a pod of a source that isn't configured is open though all are ready")
	}
	l.configure("http", "file", "api")
	_, pending = catchup.FromKnown(l.State(), []catchup.Known{held("api", "lost()"), held("old", "older()")}, everything)
	wantWords(t, "the only one that isn't ready goes", l.settle(pending, l.configure("file")), "REMOVE api: lost", "REMOVE old: older")
}

// TestPendingOfASourceThatComes: pods that waited for all sources wait only for their own source, once that is
// configured.
func TestPendingOfASourceThatComes(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("file", "")
	knows := []catchup.Known{held("http", "web()"), held("http", "db()"), held("old", "older()")}
	_, pending := catchup.FromKnown(l.State(), knows, everything)
	wantWords(t, "http comes", l.settle(pending, l.configure("file", "http", "api")))
	wantWords(t, "http speaks", l.settle(pending, l.set("http", "x: web(image=2)")), "REMOVE http: db", "UPDATE http: web")
	wantWords(t, "relay comes, which old has to wait for", l.settle(pending, l.configure("file", "http", "api", "relay")))
	wantWords(t, "api speaks", l.settle(pending, l.set("api", "")), "ADD api:")
	wantWords(t, "relay speaks", l.settle(pending, l.set("relay", "")), "REMOVE old: older", "ADD relay:")
}

// TestUndecidedBeforeOtherSources: if a revision had other sources, and its state isn't kept, it isn't known
// which pods were undecided: all known pods are compared.
func TestUndecidedBeforeOtherSources(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("file", "a: web()")
	at := l.Number()
	l.configure("file", "http")
	l.set("file", "a: web(image=2)")
	st := l.State()
	changes, _ := catchup.Coalesced(st, at, everything)
	pending := catchup.Undecided(st, at, []catchup.Known{held("file", "web()"), held("api", "lost()")}, everything)
	wantWords(t, "the consumer is caught up", pending.Settle(changes, st.Number, l.at(st.Number)), "UPDATE file: web")
	wantWords(t, "once all are ready", l.settle(pending, l.set("http", "")), "REMOVE api: lost", "ADD http:")
}

// TestUndecidedBeforeTheSourceWent: pods that waited for a source that has been removed are decided at the
// first revision, even if that makes no source ready.
func TestUndecidedBeforeTheSourceWent(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("api", "")
	at := l.Number()
	l.configure("api")
	st := l.State()
	pending := catchup.Undecided(st, at, []catchup.Known{held("file", "lost()")}, everything)
	changes, _ := catchup.Coalesced(st, at, everything)
	wantWords(t, "the consumer is caught up", pending.Settle(changes, st.Number, l.at(st.Number)), "REMOVE file: lost")
}

// TestCoalescedOverAReturn: if a source was removed and added while the consumer was away, each of its pods is
// a different one, and its readiness is sent again.
func TestCoalescedOverAReturn(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("file", "")
	l.set("api", "x: web() db()")
	at := l.Number()
	l.configure("file")
	l.configure("file", "api")
	changes, _ := catchup.Coalesced(l.State(), at, everything)
	wantWords(t, "it is back and isn't ready", changes, "REMOVE api: web db")
	l.set("api", "x: web()")
	changes, _ = catchup.Coalesced(l.State(), at, everything)
	wantWords(t, "it has", changes, "REMOVE api: web db", "ADD api: web")
	l.set("api", "")
	changes, _ = catchup.Coalesced(l.State(), at, everything)
	wantWords(t, "and has no pods", changes, "REMOVE api: web db", "ADD api:")
}

// TestPendingInAnotherOrder: when the order of the sources changes, a consumer with undecided pods receives the
// changes in the new order, as all consumers do.
func TestPendingInAnotherOrder(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "http", "api", "relay"}})
	l.set("file", "f: x() y()")
	l.set("http", "h: x(uid=x-http)")
	l.set("api", "a: y(uid=y-api)")
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{held("relay", "lost()")}, everything)
	rev := l.configure("api", "http", "file", "relay")
	want := strings.Fields("REMOVE file: x y\nADD api: y-api\nADD http: x-http")
	if got := strings.Fields(words(rev.Changes)); !slices.Equal(got, want) {
		t.Fatalf("the revision is %q; want %q", got, want)
	}
	wantWords(t, "the order changes", l.settle(pending, rev), "REMOVE file: x y", "ADD api: y-api", "ADD http: x-http")
}
