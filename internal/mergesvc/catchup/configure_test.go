package catchup_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// settle is what the consumer is sent of the revision.
func (l *life) settle(p *catchup.Pending, rev *revision.Revision) []revision.Change {
	p.Configure(l.states[rev.Number].Sources)
	return p.Settle(rev.Changes, rev.Number, l.at(rev.Number))
}

// TestPendingOfASourceThatGoes: its word will never come; what waits for it waits for all that are left.
func TestPendingOfASourceThatGoes(t *testing.T) {
	l := newLife(history.Config{Life: history.Life{Instance: "life"}, Sources: []string{"file", "http", "api"}})
	l.set("file", "")
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{held("api", "lost()")}, everything)
	wantWords(t, "api goes, http hasn't spoken", l.settle(pending, l.configure("http", "file")))
	wantWords(t, "http speaks", l.settle(pending, l.set("http", "")), "REMOVE api: lost", "ADD http:")
	if !pending.Empty() {
		t.Error("something is open still; want nothing once all have spoken")
	}

	_, pending = catchup.FromKnown(l.State(), []catchup.Known{held("api", "lost()")}, everything)
	if !pending.Empty() {
		t.Error("a pod of a source that isn't configured is open though all have spoken")
	}
	l.configure("http", "file", "api")
	_, pending = catchup.FromKnown(l.State(), []catchup.Known{held("api", "lost()"), held("old", "older()")}, everything)
	wantWords(t, "the only one that hasn't spoken goes", l.settle(pending, l.configure("file")), "REMOVE api: lost", "REMOVE old: older")
}

// TestPendingOfASourceThatComes: what waited for all waits for its own source, if that is configured now, and for that alone.
func TestPendingOfASourceThatComes(t *testing.T) {
	l := newLife(history.Config{Life: history.Life{Instance: "life"}, Sources: []string{"file", "api"}})
	l.set("file", "")
	knows := []catchup.Known{held("http", "web()"), held("http", "db()"), held("old", "older()")}
	_, pending := catchup.FromKnown(l.State(), knows, everything)
	wantWords(t, "http comes", l.settle(pending, l.configure("file", "http", "api")))
	wantWords(t, "http speaks", l.settle(pending, l.set("http", "x: web(image=2)")), "REMOVE http: db", "UPDATE http: web")
	wantWords(t, "relay comes, which old has to wait for", l.settle(pending, l.configure("file", "http", "api", "relay")))
	wantWords(t, "api speaks", l.settle(pending, l.set("api", "")), "ADD api:")
	wantWords(t, "relay speaks", l.settle(pending, l.set("relay", "")), "REMOVE old: older", "ADD relay:")
}

// TestUndecidedBeforeOtherSources: of a revision at which other sources were configured, and whose state isn't kept, nobody knows what
// was open: all that the consumer holds is compared.
func TestUndecidedBeforeOtherSources(t *testing.T) {
	l := newLife(history.Config{Life: history.Life{Instance: "life"}, Sources: []string{"file", "api"}})
	l.set("file", "a: web()")
	at := l.Number()
	l.configure("file", "http")
	l.set("file", "a: web(image=2)")
	st := l.State()
	changes, _ := catchup.Coalesced(st, at, everything)
	pending := catchup.Undecided(st, at, []catchup.Known{held("file", "web()"), held("api", "lost()")}, everything)
	wantWords(t, "the consumer is caught up", pending.Settle(changes, st.Number, l.at(st.Number)), "UPDATE file: web")
	wantWords(t, "once all have spoken", l.settle(pending, l.set("http", "")), "REMOVE api: lost", "ADD http:")
}

// TestUndecidedBeforeTheSourceWent: what waited for a source that is gone by now is decided with the first revision, though nobody
// becomes ready by it.
func TestUndecidedBeforeTheSourceWent(t *testing.T) {
	l := newLife(history.Config{Life: history.Life{Instance: "life"}, Sources: []string{"file", "api"}})
	l.set("api", "")
	at := l.Number()
	l.configure("api")
	st := l.State()
	pending := catchup.Undecided(st, at, []catchup.Known{held("file", "lost()")}, everything)
	changes, _ := catchup.Coalesced(st, at, everything)
	wantWords(t, "the consumer is caught up", pending.Settle(changes, st.Number, l.at(st.Number)), "REMOVE file: lost")
}

// TestCoalescedOverAReturn: of a source that went and came back while the consumer was away, each pod is another one, and that it is
// ready is told anew.
func TestCoalescedOverAReturn(t *testing.T) {
	l := newLife(history.Config{Life: history.Life{Instance: "life"}, Sources: []string{"file", "api"}})
	l.set("file", "")
	l.set("api", "x: web() db()")
	at := l.Number()
	l.configure("file")
	l.configure("file", "api")
	changes, _ := catchup.Coalesced(l.State(), at, everything)
	wantWords(t, "it is back and hasn't spoken", changes, "REMOVE api: web db")
	l.set("api", "x: web()")
	changes, _ = catchup.Coalesced(l.State(), at, everything)
	wantWords(t, "it has", changes, "REMOVE api: web db", "ADD api: web")
	l.set("api", "")
	changes, _ = catchup.Coalesced(l.State(), at, everything)
	wantWords(t, "and has no pods", changes, "REMOVE api: web db", "ADD api:")
}
