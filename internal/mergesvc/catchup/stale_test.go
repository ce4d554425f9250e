package catchup_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// held returns a pod in mergetest's notation as a known pod.
func held(source, text string) catchup.Known {
	p := mergetest.Set(source, 1, "x: "+text).Origins[0].Pods[0]
	return catchup.Known{
		UID: p.UID, Source: source, Namespace: p.Namespace, Name: p.Name, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
	}
}

// stored returns a podconfigd that has started with web and db of file in its store; api and file are
// configured.
func stored() *daemon {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("file", "x: web() db()")
	return l.restarted("file", "api")
}

// TestG9StaleIsNotChanged: a stale pod that differs from the consumer's changes nothing before its source was
// read. Then the pod is compared with the consumer's, even if that reading changed only the readiness.
func TestG9StaleIsNotChanged(t *testing.T) {
	equal := held("file", "db()")
	for _, tc := range []struct {
		name  string
		known []catchup.Known
		// before is the difference, set what file has then, after what its word settles.
		before []string
		set    string
		after  []string
	}{
		{"the store is right, and nothing is known", nil,
			[]string{"RESTORE file: db web"}, "x: web() db()", []string{"ADD file:"}},
		{"the store is right, and the consumer has it", []catchup.Known{equal, held("file", "web()")},
			nil, "x: web() db()", []string{"ADD file:"}},
		{"the store is right, and the consumer is behind", []catchup.Known{equal, held("file", "web(image=0)")},
			nil, "x: web() db()", []string{"UPDATE file: web"}},
		{"the same of a status", []catchup.Known{equal, held("file", "web(phase=Running)")},
			nil, "x: web() db()", []string{"ADD file:", "RECONCILE file: web"}},
		{"the consumer is right", []catchup.Known{equal, held("file", "web(image=2)")},
			nil, "x: web(image=2) db()", []string{"ADD file:"}},
		{"both are wrong", []catchup.Known{equal, held("file", "web(image=2)")},
			nil, "x: web(image=3) db()", []string{"UPDATE file: web"}},
		{"both are wrong, and it is being deleted", []catchup.Known{equal, held("file", "web(image=2)")},
			nil, "x: web(deleting=30) db()", []string{"DELETE file: web"}},
		{"it is gone", []catchup.Known{equal, held("file", "web(image=2)")},
			nil, "x: db()", []string{"REMOVE file: web", "ADD file:"}},
		{"the store has another pod under the UID, and is right", []catchup.Known{equal, held("file", "shop(uid=web)")},
			nil, "x: web() db()", []string{"REMOVE file: web", "ADD file: web"}},
		{"the store has another pod under the UID, and is wrong", []catchup.Known{equal, held("file", "shop(uid=web)")},
			nil, "x: shop(uid=web) db()", []string{"ADD file:"}},
		{"the store has another pod under the UID, and none is there", []catchup.Known{equal, held("file", "shop(uid=web)")},
			nil, "x: db()", []string{"REMOVE file: web", "ADD file:"}},
		{"the store has another pod under the name, and is right", []catchup.Known{equal, held("file", "web(uid=other)")},
			[]string{"RESTORE file: web"}, "x: web() db()", []string{"REMOVE file: other", "ADD file:"}},
		{"the store has another pod under the name, and is wrong", []catchup.Known{equal, held("file", "web(uid=other)")},
			[]string{"RESTORE file: web"}, "x: web(uid=other) db()", []string{"REMOVE file: web", "ADD file:"}},
		{"the store has it of another source, and is right", []catchup.Known{equal, held("api", "web()")},
			nil, "x: web() db()", []string{"REMOVE api: web", "ADD file: web"}},
		{"the store has it of a configured source, the consumer of another", []catchup.Known{equal, held("http", "web()")},
			nil, "x: db()", []string{"ADD file:"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := stored()
			changes, pending := catchup.FromKnown(l.State(), tc.known, everything)
			wantWords(t, "before file is ready", changes, tc.before...)
			rev := l.set("file", tc.set)
			wantWords(t, "the first word of file", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), tc.after...)
		})
	}
}

// TestG9MovedAwayFromReadySource: the consumer's pod is gone because its source is ready. A stored pod with its
// UID is added, which isn't a change of the consumer's pod.
func TestG9MovedAwayFromReadySource(t *testing.T) {
	l := stored()
	l.set("api", "")
	changes, _ := catchup.FromKnown(l.State(), []catchup.Known{held("file", "db()"), held("api", "web()")}, everything)
	wantWords(t, "api is ready without the pod", changes, "REMOVE api: web", "RESTORE file: web")
}

// TestG9FormerSource: a pod of a source that is no longer configured stays stale. The consumer's pods of it
// stay until the merge removes them, once all sources are ready.
func TestG9FormerSource(t *testing.T) {
	l := stored().restarted("api", "http")
	known := []catchup.Known{held("file", "web(image=0)"), held("file", "lost()")}
	changes, pending := catchup.FromKnown(l.State(), known, everything)
	wantWords(t, "none is ready", changes, "RESTORE file: db")
	rev := l.set("api", "")
	wantWords(t, "one is ready", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), "ADD api:")
	rev = l.set("http", "")
	wantWords(t, "all are ready", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)),
		"REMOVE file: db web lost", "ADD http:")
}

// TestStateIsAskedForOnlyIfNeeded: a state is expensive, so it is only created when a source that undecided
// pods wait for was read.
func TestStateIsAskedForOnlyIfNeeded(t *testing.T) {
	l := stored()
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{held("file", "web(image=0)")}, everything)
	asked := 0
	settle := func(source, text string) {
		rev := l.set(source, text)
		pending.Settle(rev.Changes, rev.Number, func() *history.State { asked++; return l.states[rev.Number] })
	}
	for _, text := range []string{"x: a()", "x: a(image=2)", "x:"} {
		settle("api", text)
	}
	if asked != 0 {
		t.Errorf("while only api is read, the state is requested %d times; want none, as only pods of file are pending", asked)
	}
	settle("file", "x: web() db()")
	settle("file", "x: web(image=2) db()")
	settle("file", "x: db()")
	if asked != 1 {
		t.Errorf("after file was read, the state has been requested %d times; want once", asked)
	}
}

// TestG2StatusSinceTheCursor: a consumer that sends no status digests has the status of its cursor; a later one
// is sent.
func TestG2StatusSinceTheCursor(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file"}})
	l.set("file", "x: web() [held]")
	at := l.Number()
	rev := l.set("file", "x: web(phase=Running) [held]")
	web := held("file", "web()")
	web.StatusDigest = ""
	pending := catchup.Undecided(l.State(), at, []catchup.Known{web}, everything)
	wantWords(t, "the status changed", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), "RECONCILE file: web")
}

// TestG7StoredChangesAfterTheCursor: changes published after the consumer's cursor are sent even if their pods are
// stale after a restart of podconfigd.
func TestG7StoredChangesAfterTheCursor(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file"}})
	l.set("file", "x: web() db()")
	at := l.Number()
	l.set("file", "x: web(image=2) new()")
	pods := mergetest.At(l.states[at]).Pods
	l = l.restarted("file")
	st := l.State()
	changes, _ := catchup.Coalesced(st, at, everything)
	pending := catchup.Undecided(st, at, known(everything, pods, true), everything)
	wantWords(t, "after a restart", pending.Settle(changes, st.Number, l.at(st.Number)),
		"REMOVE file: db", "UPDATE file: web", "RESTORE file: new")
}
