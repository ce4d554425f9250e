package catchup_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// TestScopedCannotGuess: a caller whose scope is a node or a source can't use its known pods to find out which
// pods are out of its scope, nor their content: it receives the same as if there were no such pods, for every
// kind of catch-up and whenever a source is read.
func TestScopedCannotGuess(t *testing.T) {
	ofNode, ofSource := mustView(view.Config{Nodes: []string{"n1"}}), mustView(view.Config{Sources: []string{"file"}})
	const out = "db(node=n2,label.tier=a)"
	for name, tc := range map[string]struct {
		view *view.View
		// source has the pod that is out of scope, and is ready. The known pod is of file, which isn't ready.
		source string
		known  catchup.Known
	}{
		"the pod of another node":              {ofNode, "file", held("file", out)},
		"another version of it":                {ofNode, "file", held("file", "db(node=n2)")},
		"another pod by its name":              {ofNode, "file", held("file", "db(uid=u,node=n1)")},
		"a pod of another name, under its UID": {ofNode, "file", held("file", "web(uid=db,node=n1)")},
		"another source's pod's UID":           {ofSource, "api", held("file", out)},
	} {
		// The caller must receive only its own pods at first, and then as file has new pods, one of which takes
		// the name web.
		reported := func(pods string, stale, another bool) (all []string) {
			l := newDaemon(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}})
			api, file := "", "broken: [held] [unready]\nx: mine(node=n1) "
			if tc.source == "file" {
				file += pods
			} else {
				api = "x: " + pods
			}
			l.set("file", file)
			l.set("api", api)
			if stale {
				l = l.restarted("file", "api")
			}
			st, knows := l.State(), []catchup.Known{tc.known, held("file", "mine(node=n1)")}
			changes, came := catchup.FromKnown(st, knows, tc.view)
			all = append(all, words(changes))
			resumed := catchup.Undecided(st, st.Number, knows, tc.view)
			sets := []string{file + " new(node=n1)", file + " new(node=n1) web(uid=v,node=n1)", "x: mine(node=n1)"}
			if !another {
				sets = sets[1:]
			}
			for _, set := range sets {
				rev := l.set("file", set)
				seen := tc.view.Changes(rev, l.at(rev.Number))
				for _, pending := range []*catchup.Pending{came, resumed} {
					all = append(all, words(pending.Settle(seen, rev.Number, l.at(rev.Number))))
				}
			}
			return all
		}
		for i := range 4 {
			stale, another := i%2 == 1, i > 1
			if diff := cmp.Diff(reported("", stale, another), reported(out, stale, another)); diff != "" {
				t.Errorf("%s, stale %v: what the caller receives (-without such a pod +with it):\n%s", name, stale, diff)
			}
		}
	}
}
