package catchup_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// TestFromKnownConverges checks G7's third step over a whole stream: a consumer comes from another life of podconfigd, of
// whose sources some haven't spoken yet in this one and one is configured no longer. It is brought to the current state but for
// the pods of sources that haven't spoken (G9), and follows from there, by exact history or coalesced, until all have.
func TestFromKnownConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := newLife(history.Config{Instance: "before", Sources: []string{"file", "http", "api", "old"}})
		before.draw(t, mergetest.NewRandom("file", "http", "api", "old"), 12)
		consumer := mergetest.At(before.State())
		consumer.Elsewhere = true

		sources := []string{"file", "http", "api"}
		l := newLife(history.Config{Instance: "now", Sources: sources})
		random := mergetest.NewRandom(sources...)
		l.draw(t, random, 6)
		st := l.State()
		changes, pending := catchup.FromKnown(st, known(consumer))
		step(t, consumer, changes, st, "the difference")

		for at := st.Number; ; at = st.Number {
			l.draw(t, random, 4)
			if rapid.Bool().Draw(t, "the rest speaks") {
				for _, s := range sources {
					l.merge(manifest.Set{Source: s})
				}
			}
			st = l.State()
			if consumer.Coalesced = rapid.Bool().Draw(t, "coalesced"); consumer.Coalesced {
				changes, _ := catchup.Coalesced(st, at)
				step(t, consumer, pending.Settle(changes, st.Number, st.Sources), st, "the coalesced catch-up")
			} else {
				revs, _, _ := l.After(at, 1000)
				for _, rev := range revs {
					step(t, consumer, pending.Settle(rev.Changes, rev.Number, st.Sources), l.states[rev.Number], "the exact history")
				}
			}
			if st.AllReadyAt(st.Number) {
				return
			}
		}
	})
}

// step applies changes that lead to st, and compares.
func step(t *rapid.T, consumer *mergetest.Consumer, changes []revision.Change, st *history.State, what string) {
	t.Helper()
	if err := consumer.Apply(changes); err != nil {
		t.Fatalf("%s to revision %d: %v, in\n%s", what, st.Number, err, words(changes))
	}
	undecided := func(p *revision.Pod) bool {
		return !st.ReadyAt(p.Source, st.Number) && (st.Configured(p.Source) || !st.AllReadyAt(st.Number))
	}
	if err := consumer.Diff(st.Pods, undecided); err != nil {
		t.Fatalf("%s to revision %d, sources %v: %v, after\n%s", what, st.Number, st.Sources, err, words(changes))
	}
}

// TestFromKnown walks through what a consumer may say it holds, with api ready and file not.
func TestFromKnown(t *testing.T) {
	l := newLife(history.Config{Instance: "life", Sources: []string{"file", "api"}})
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
		{"a pod of a source that hasn't spoken", []catchup.Known{same, rest, {UID: "f", Source: "file"}}, nil},
		{"a pod of a source that is configured no longer waits for all", []catchup.Known{same, rest, {UID: "h", Source: "http"}}, nil},
		{"the same pod twice", []catchup.Known{same, rest, same}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := catchup.FromKnown(st, tc.known)
			wantWords(t, "the difference", got, tc.want...)
		})
	}
}

// TestSettle: file speaks after the consumer came, which says that it holds pods of file, and one of http, that is configured
// no longer.
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
		{"another spec is an ADD, which updates", "x: same() changed(image=2) gone()", []string{"REMOVE http: stranger", "ADD file: changed"}},
		{"gone", "x: same() changed()", []string{"REMOVE file: gone", "REMOVE http: stranger", "ADD file:"}},
		{"all of it, and a new one", "x: same() changed(image=2) new()",
			[]string{"REMOVE file: gone", "REMOVE http: stranger", "ADD file: changed new"}},
		{"nothing is left", "", []string{"REMOVE file: changed gone same", "REMOVE http: stranger", "ADD file:"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLife(history.Config{Instance: "life", Sources: []string{"file", "api"}})
			l.set("api", "")
			st := l.State()
			changes, pending := catchup.FromKnown(st, held)
			wantWords(t, "before file has spoken", changes)
			rev := l.set("api", "x: a()")
			wantWords(t, "a word of api", pending.Settle(rev.Changes, rev.Number, l.Sources()), "ADD api: a")
			rev = l.set("file", tc.set)
			got := pending.Settle(rev.Changes, rev.Number, l.Sources())
			wantWords(t, "the first word of file", got, tc.want...)
			rev = l.set("file", "x: same(image=9) changed(image=9)")
			if settled := pending.Settle(rev.Changes, rev.Number, l.Sources()); words(settled) != words(rev.Changes) {
				t.Errorf("the second word of file:\n%s\nwant it untouched, as nothing is pending:\n%s", words(settled), words(rev.Changes))
			}
		})
	}
}

// TestSettleKeepsSet: a SET must stay whole, or its consumer would remove what is missing; what is pending is settled by it.
func TestSettleKeepsSet(t *testing.T) {
	l := newLife(history.Config{Instance: "life", Sources: []string{"file", "api"}})
	l.set("api", "")
	held := mergetest.Set("file", 1, "x: web() gone()").Origins[0].Pods
	var known []catchup.Known
	for _, p := range held {
		known = append(known, catchup.Known{UID: p.UID, Source: "file", SpecDigest: p.SpecDigest})
	}
	_, pending := catchup.FromKnown(l.State(), known)
	l.set("file", "x: web()")
	st := l.State()
	wantWords(t, "a SET for a consumer that holds web and gone", pending.Settle(catchup.Set(st, st.Number), st.Number, st.Sources),
		"REMOVE file: gone", "SET file: web")
}

// TestSettleMovedPod: a pod that the consumer holds of a source that hasn't spoken comes from another source. It is replaced
// at once, and the first source's word, when it comes, doesn't take the new pod away.
func TestSettleMovedPod(t *testing.T) {
	l := newLife(history.Config{Instance: "life", Sources: []string{"file", "api"}})
	_, pending := catchup.FromKnown(l.State(), []catchup.Known{{UID: "web", Source: "file"}})
	rev := l.set("api", "x: web()")
	wantWords(t, "api has the pod", pending.Settle(rev.Changes, rev.Number, l.Sources()), "REMOVE file: web", "ADD api: web")
	rev = l.set("file", "")
	wantWords(t, "file hasn't got it", pending.Settle(rev.Changes, rev.Number, l.Sources()), "ADD file:")
}

// TestUndecided: a consumer that resumes says again what it holds; what was open at its cursor is settled as for one that never
// went away, and the rest is none of it.
func TestUndecided(t *testing.T) {
	l := newLife(history.Config{Instance: "life", Sources: []string{"file", "api"}})
	l.set("api", "x: web()") // 1
	l.set("file", "")        // 2
	held := []catchup.Known{{UID: "web", Source: "api"}, {UID: "lost", Source: "file"}, {UID: "stranger", Source: "http"}}
	for _, tc := range []struct {
		at   uint64
		want []string
	}{
		{0, []string{"REMOVE file: lost", "REMOVE http: stranger", "ADD api: web"}},
		{1, []string{"REMOVE file: lost", "REMOVE http: stranger"}},
		{2, nil},
	} {
		st := l.State()
		changes, _ := catchup.Coalesced(st, tc.at)
		changes = slices.DeleteFunc(changes, func(c revision.Change) bool { return len(c.Pods) == 0 })
		got := catchup.Undecided(st, tc.at, held).Settle(changes, st.Number, st.Sources)
		wantWords(t, fmt.Sprintf("for a consumer that resumes after revision %d", tc.at), got, tc.want...)
	}
}

// TestSettleNil: a consumer without known pods has nothing pending.
func TestSettleNil(t *testing.T) {
	l := newLife(history.Config{Instance: "life", Sources: []string{"api"}})
	rev := l.set("api", "x: web()")
	var pending *catchup.Pending
	wantWords(t, "nothing pending", pending.Settle(rev.Changes, rev.Number, l.Sources()), "ADD api: web")
}
