package catchup_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// inspector is the view of a caller that receives redacted pods.
var inspector = mustView(view.Config{Redacted: true})

// inspected returns a pod of file in mergetest's notation as an inspector's known pod.
func inspected(text string) catchup.Known {
	l := newDaemon(history.Config{Instance: history.Instance{ID: "elsewhere"}, Sources: []string{"file"}})
	l.set("file", "x: "+text)
	return known(inspector, mergetest.At(l.State()).Pods, true)[0]
}

// TestInspectorCannotGuess: the digest of a pod can't be used to test guesses of a secret. A caller that sends
// that pod as known, and must not see the secret, receives the same as with a wrong guess, for every kind of
// catch-up.
func TestInspectorCannotGuess(t *testing.T) {
	const truth = "web(env.PASSWORD=sesame)"
	for name, tc := range map[string]struct {
		known catchup.Known
		// difference is what it receives if file was read, and settled if file is read later.
		difference, settled []string
	}{
		"the right secret": {held("file", truth), []string{"UPDATE file: web"}, []string{"UPDATE file: web"}},
		"a wrong one":      {held("file", "web(env.PASSWORD=guess)"), []string{"UPDATE file: web"}, []string{"UPDATE file: web"}},
		"what it has seen": {inspected(truth), nil, []string{"ADD file:"}},
		"what it has seen, when the secret was another": {inspected("web(env.PASSWORD=old)"), nil, []string{"ADD file:"}},
		"another status": {inspected("web(env.PASSWORD=sesame,phase=Running)"),
			[]string{"RECONCILE file: web"}, []string{"ADD file:", "RECONCILE file: web"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file"}})
			start, knows := l.State(), []catchup.Known{tc.known}
			_, fromKnown := catchup.FromKnown(start, knows, inspector)
			rev := l.set("file", "x: "+truth)
			changes, _ := catchup.FromKnown(l.State(), knows, inspector)
			wantWords(t, "the difference", changes, tc.difference...)
			for what, pending := range map[string]*catchup.Pending{
				"came before":            fromKnown,
				"resumes from before":    catchup.Undecided(start, start.Number, knows, inspector),
				"resumes, file is ready": catchup.Undecided(l.State(), start.Number, knows, inspector),
			} {
				wantWords(t, "the word of file to one that "+what, pending.Settle(rev.Changes, rev.Number, l.at(rev.Number)), tc.settled...)
			}

			stale := l.restarted("file")
			changes, fromKnown = catchup.FromKnown(stale.State(), knows, inspector)
			wantWords(t, "the difference to a pod of the store", changes)
			rev = stale.set("file", "x: "+truth)
			wantWords(t, "the word of file after a restart", fromKnown.Settle(rev.Changes, rev.Number, stale.at(rev.Number)), tc.settled...)
		})
	}
}

// TestInspectorCoalesced: an inspector that is behind receives the pods whose visible part changed, and no
// others, even if the revisions aren't kept. It receives a SET if the versions weren't compared in time.
func TestInspectorCoalesced(t *testing.T) {
	tier := mustView(view.Config{Redacted: true, Filter: &podconfigv1.PodFilter{LabelSelector: "tier"}})
	const before = "x: same() hidden(env.P=a) seen(image=1) status() both(env.P=a) gone() left(label.tier=a) quiet(label.tier=a,env.P=a)"
	middle := []string{
		"x: same() hidden(env.P=b) seen(image=2) status(phase=Running) both(env.P=b,phase=Running) left() quiet(label.tier=a,env.P=b)",
		"x: same() hidden(env.P=c) seen(image=2) status(phase=Running) both(env.P=c,phase=Running) left() quiet(label.tier=a,env.P=c) came()",
	}
	for name, tc := range map[string]struct {
		view *view.View
		// revisions is the number of kept revisions.
		revisions int
		want      []string
	}{
		"all are kept":             {inspector, 9, []string{"REMOVE api: gone", "ADD api: came", "UPDATE api: left seen", "RECONCILE api: both status"}},
		"none is kept":             {inspector, 1, []string{"REMOVE api: gone", "ADD api: came", "UPDATE api: left seen", "RECONCILE api: both status"}},
		"a filter, all are kept":   {tier, 9, []string{"REMOVE api: gone left seen"}},
		"a filter, none is kept":   {tier, 1, []string{"REMOVE api: gone left seen"}},
		"a snapshot, none is kept": {mustView(view.Config{Redacted: true, Mode: snapshot}), 1, []string{"SET api: both came hidden left quiet same seen status"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"api"}, Revisions: tc.revisions})
			end := l.Inspect()
			l.set("api", before)
			for _, text := range middle {
				l.set("api", text)
			}
			last := middle[len(middle)-1]
			for tc.revisions < int(l.Number()) && l.Number() < 6 {
				// The pod changes its origin: a revision that consumers don't see.
				last = "y" + last[1:]
				l.set("api", last)
				last = "x" + last[1:]
				l.set("api", last)
			}
			got, ok := catchup.Coalesced(l.State(), 1, tc.view)
			if !ok {
				t.Fatal("Coalesced returns false; want true, because the visible changes were compared")
			}
			wantWords(t, "what became of the pods", got, tc.want...)
			got, _ = catchup.Coalesced(l.State(), 3, tc.view)
			wantWords(t, "what became of them since revision 3", got)

			end()
			l.set("api", before)
			if _, ok := catchup.Coalesced(l.State(), 3, tc.view); ok != (tc.revisions > 1) {
				t.Errorf("after a revision was dropped while no inspector was connected, Coalesced returns %v; want %v", ok, tc.revisions > 1)
			}
		})
	}
}
