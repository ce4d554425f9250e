package catchup_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// inspector is the view of a caller that gets pods redacted.
var inspector = mustView(view.Config{Redacted: true})

// inspected is a pod of file in mergetest's notation as an inspector knows it.
func inspected(text string) catchup.Known {
	l := newLife(history.Config{Life: history.Life{Instance: "elsewhere"}, Sources: []string{"file"}})
	l.set("file", "x: "+text)
	return known(inspector, mergetest.At(l.State()).Pods, true)[0]
}

// TestInspectorCannotGuess: a secret can't be tried out by the digest of the pod that has it. Whoever says that it holds that pod,
// and must not see the secret, is told the same as with a wrong guess, whichever way it comes.
func TestInspectorCannotGuess(t *testing.T) {
	const truth = "web(env.PASSWORD=sesame)"
	for name, tc := range map[string]struct {
		known catchup.Known
		// difference is what it is told if file has spoken, settled if file speaks later.
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
			l := newLife(history.Config{Life: history.Life{Instance: "life"}, Sources: []string{"file"}})
			start, knows := l.State(), []catchup.Known{tc.known}
			_, fromKnown := catchup.FromKnown(start, knows, inspector)
			rev := l.set("file", "x: "+truth)
			changes, _ := catchup.FromKnown(l.State(), knows, inspector)
			wantWords(t, "the difference", changes, tc.difference...)
			for what, pending := range map[string]*catchup.Pending{
				"came before":              fromKnown,
				"resumes from before":      catchup.Undecided(start, start.Number, knows, inspector),
				"resumes, file has spoken": catchup.Undecided(l.State(), start.Number, knows, inspector),
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
