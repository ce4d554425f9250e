package catchup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// TestFromKnown checks the known pods that a consumer may send, with api ready and file not.
func TestFromKnown(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("api", "x: web() gone(deleting=30)")
	st := l.State()
	web, gone := st.Pods[1], st.Pods[0]
	same := catchup.Known{UID: "web", Source: "api", SpecDigest: web.SpecDigest, StatusDigest: web.StatusDigest}
	changed := func(k catchup.Known, change func(*catchup.Known)) catchup.Known { change(&k); return k }
	rest := catchup.Known{UID: "gone", Source: "api", SpecDigest: gone.SpecDigest, StatusDigest: gone.StatusDigest}
	for _, tc := range []struct {
		name  string
		known []catchup.Known
		want  []string
	}{
		{"everything", []catchup.Known{same, rest}, nil},
		{"one pod isn't known", []catchup.Known{rest}, []string{"ADD api: web"}},
		{"another spec", []catchup.Known{changed(same, func(k *catchup.Known) { k.SpecDigest = "old" }), rest},
			[]string{"UPDATE api: web"}},
		{"no spec digest: sent again", []catchup.Known{changed(same, func(k *catchup.Known) { k.SpecDigest = "" }), rest},
			[]string{"UPDATE api: web"}},
		{"another spec of a pod that is being deleted", []catchup.Known{same, changed(rest, func(k *catchup.Known) { k.SpecDigest = "old" })},
			[]string{"DELETE api: gone"}},
		{"another status", []catchup.Known{changed(same, func(k *catchup.Known) { k.StatusDigest = "old" }), rest},
			[]string{"RECONCILE api: web"}},
		{"no status digest: the current one", []catchup.Known{changed(same, func(k *catchup.Known) { k.StatusDigest = "" }), rest}, nil},
		{"another source", []catchup.Known{changed(same, func(k *catchup.Known) { k.Source = "http" }), rest},
			[]string{"REMOVE http: web", "ADD api: web"}},
		{"a pod that is gone", []catchup.Known{same, rest, {UID: "lost", Source: "api"}}, []string{"REMOVE api: lost"}},
		{"a pod of a source that isn't ready", []catchup.Known{same, rest, {UID: "f", Source: "file"}}, nil},
		{"a pod of a source that is configured no longer waits for all", []catchup.Known{same, rest, {UID: "h", Source: "http"}}, nil},
		{"the same pod twice", []catchup.Known{same, rest, same}, nil},
		{"a pod that is gone, twice", []catchup.Known{same, rest, {UID: "lost", Source: "api"}, {UID: "lost", Source: "api"}},
			[]string{"REMOVE api: lost"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := catchup.FromKnown(st, tc.known, everything)
			wantWords(t, "the difference", got, tc.want...)
		})
	}
}

// TestFromKnownMirror: a relay that isn't ready has a mirror pod, and not yet the static pod of the same name,
// which the consumer has: that pod doesn't count as replaced. With a file source it does.
func TestFromKnownMirror(t *testing.T) {
	for source, want := range map[string][]string{"relay": nil, "relay:site": nil, "file": {"REMOVE file: s"}} {
		l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{source}})
		l.set(source, "x: web(uid=m,mirror=s)\ny: [unready]")
		held := l.State().Pods[0]
		got, _ := catchup.FromKnown(l.State(), []catchup.Known{
			{UID: "m", Source: source, Namespace: "default", Name: "web", SpecDigest: held.SpecDigest, StatusDigest: held.StatusDigest},
			{UID: "s", Source: source, Namespace: "default", Name: "web"},
		}, everything)
		wantWords(t, "the difference of "+source, got, want...)
	}
}

// TestSettle: file is read after a consumer subscribed that has pods of file, and one of http, which is no
// longer configured.
func TestSettle(t *testing.T) {
	digests := func(text string) catchup.Known {
		p := mergetest.Set("file", 1, "x: "+text).Origins[0].Pods[0]
		return catchup.Known{UID: p.UID, Source: "file", SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest}
	}
	held := []catchup.Known{digests("same()"), digests("changed()"), digests("gone()"), {UID: "stranger", Source: "http"}}
	for _, tc := range []struct {
		name string
		set  string
		want []string
	}{
		{"as it was", "x: same() changed() gone()", []string{"REMOVE http: stranger", "ADD file:"}},
		{"another spec", "x: same() changed(image=2) gone()", []string{"REMOVE http: stranger", "UPDATE file: changed"}},
		{"gone", "x: same() changed()", []string{"REMOVE file: gone", "REMOVE http: stranger", "ADD file:"}},
		{"all of it, and a new one", "x: same() changed(image=2) new()",
			[]string{"REMOVE file: gone", "REMOVE http: stranger", "ADD file: new", "UPDATE file: changed"}},
		{"another status", "x: same(phase=Running) changed() gone()",
			[]string{"REMOVE http: stranger", "ADD file:", "RECONCILE file: same"}},
		{"being deleted", "x: same(deleting=30) changed() gone()", []string{"REMOVE http: stranger", "DELETE file: same"}},
		{"nothing is left", "", []string{"REMOVE file: changed gone same", "REMOVE http: stranger", "ADD file:"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
			l.set("api", "")
			st := l.State()
			changes, pending := catchup.FromKnown(st, held, everything)
			wantWords(t, "before file is ready", changes)
			rev := l.set("api", "x: a()")
			wantWords(t, "a word of api", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), "ADD api: a")
			rev = l.set("file", tc.set)
			got := pending.Settle(rev.Changes, rev.Number, l.at(rev.Number))
			wantWords(t, "the first word of file", got, tc.want...)
			rev = l.set("file", "x: same(image=9) changed(image=9)")
			if settled := pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)); words(settled) != words(rev.Changes) {
				t.Errorf("the second set of file:\n%s\nwant it unchanged, because nothing is pending:\n%s", words(settled), words(rev.Changes))
			}
		})
	}
}

// TestSettleMovedPod: a known pod of a source that hasn't been read comes from another source. It is replaced
// at once, and when the first source is read, the new pod stays.
func TestSettleMovedPod(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{{UID: "web", Source: "file"}}, everything)
	rev := l.set("api", "x: web()")
	wantWords(t, "api has the pod", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), "REMOVE file: web", "ADD api: web")
	rev = l.set("file", "")
	wantWords(t, "file hasn't got it", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), "ADD file:")
}

// TestUndecided: a consumer that resumes sends its known pods again. The pods that were undecided at its cursor
// are settled as without the interruption. The others aren't undecided.
func TestUndecided(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("api", "x: web()") // 1
	l.set("file", "")        // 2
	held := []catchup.Known{{UID: "web", Source: "api"}, {UID: "lost", Source: "file"}, {UID: "stranger", Source: "http"}}
	for _, tc := range []struct {
		at   uint64
		want []string
	}{
		{0, []string{"REMOVE file: lost", "REMOVE http: stranger", "UPDATE api: web", "ADD file:"}},
		{1, []string{"REMOVE file: lost", "REMOVE http: stranger", "ADD file:"}},
		{2, nil},
	} {
		st := l.State()
		changes, _ := catchup.Coalesced(st, tc.at, everything)
		got := catchup.Undecided(st, tc.at, held, everything).Settle(changes, st.Number, l.at(st.Number))
		wantWords(t, fmt.Sprintf("for a consumer that resumes after revision %d", tc.at), got, tc.want...)
	}
}

// TestSettleNil: a consumer without known pods has no undecided pods.
func TestSettleNil(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"api"}})
	rev := l.set("api", "x: web()")
	var pending *catchup.Pending
	wantWords(t, "nothing pending", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), "ADD api: web")
}

// TestUndecidedOfSentPods: pods that were sent and haven't changed since aren't undecided, even if their
// source isn't ready. A change to exactly the consumer's version isn't sent (G5).
func TestUndecidedOfSentPods(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file"}})
	l.set("file", "x: web() db() [held]")
	at := l.Number()
	pending := catchup.Undecided(l.State(), at, []catchup.Known{held("file", "web()"), held("file", "db()")}, everything)
	if !pending.Empty() {
		t.Error("a pod is undecided for a consumer that has what it received; want none")
	}
	rev := l.set("file", "x: web(image=2) db(phase=Running) [held]")
	knows := []catchup.Known{held("file", "web(image=2)"), held("file", "db(phase=Running)")}
	pending = catchup.Undecided(l.State(), at, knows, everything)
	wantWords(t, "a change to what the consumer holds", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)))
}

// TestSettleNameTaken: a pod of a source that isn't ready yet takes the name of a pod that only the consumer
// has. That pod is gone, unless the state has its UID, which then decides.
func TestSettleNameTaken(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file"}})
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{held("file", "web(uid=old)"), held("file", "db()")}, everything)
	rev := l.set("file", "x: web() [held]")
	wantWords(t, "web has another UID", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), "REMOVE file: old", "ADD file: web")

	l = newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file"}})
	l.set("file", "x: shop(uid=u)")
	l = l.restarted("file")
	_, pending = catchup.FromKnown(l.State(), []catchup.Known{held("file", "web(uid=u)")}, everything)
	rev = l.set("file", "x: shop(uid=u) web()")
	wantWords(t, "web is shop now, and there is a new web", pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)),
		"REMOVE file: u", "ADD file: web u")
}

// TestUndecidedInSnapshotModes: SETs have everything; nothing is added to them.
func TestUndecidedInSnapshotModes(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file"}})
	v := mustView(view.Config{Mode: snapshot})
	pending := catchup.Undecided(l.State(), 0, []catchup.Known{held("file", "lost()")}, v)
	rev := l.set("file", "x: web()")
	changes := v.Changes(rev, l.State)
	wantWords(t, "file speaks", pending.Settle(changes, rev.Number, l.at(rev.Number)), "SET file: web")
}

// TestSettleCostsTheRevision: the cost of a revision doesn't grow with the undecided pods, of which a consumer
// may send many.
func TestSettleCostsTheRevision(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "p%d() ", i)
	}
	start := l.State()
	rev := l.set("api", "x: "+text.String())
	// fastest is the best of a few runs: a busy machine makes some slow.
	fastest := func(open int) time.Duration {
		var known []catchup.Known
		for i := range open {
			name := fmt.Sprint("f", i)
			known = append(known, catchup.Known{UID: types.UID(name), Source: "file", Namespace: "default", Name: name})
		}
		_, pending := catchup.FromKnown(start, known, everything)
		best := time.Hour
		for range 9 {
			began := time.Now()
			pending.Settle(rev.Changes, rev.Number, l.at(rev.Number))
			best = min(best, time.Since(began))
		}
		return best
	}
	// A walk over all undecided pods, for each pod of the revision, takes more than a thousand times as long.
	if one, many := fastest(1), fastest(5000); many > 50*one {
		t.Errorf("a revision of 200 pods takes %v with 5000 open pods; want about the %v that it takes with one", many, one)
	}
}

// TestSettleNameTakenLater: a known pod whose UID another source's pod had when its name was taken is replaced
// by the next pod that takes the name once no pod has the UID.
func TestSettleNameTakenLater(t *testing.T) {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
	l.set("api", "x: stored(uid=u)")
	l = l.restarted("file", "api")
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{held("file", "web(uid=u)")}, everything)
	settle := func(what, source, set string, want ...string) {
		t.Helper()
		rev := l.set(source, set)
		wantWords(t, what, pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), want...)
	}
	settle("the name is taken while api may have the UID", "file", "broken: [held] [unready]\nx: web(uid=v)", "ADD file: v")
	settle("api hasn't the UID any more", "api", "", "ADD api:")
	settle("the name is taken again", "file", "broken: [held] [unready]\nx: web(uid=w)", "REMOVE file: v u", "ADD file: w")
}
