package merge_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// TestPriority: of two pods with one full name, or one UID, the pod of the source that is configured first is
// served, in whichever order they were added. The other one waits, is listed with its source, and is served at
// once when the first one is removed in any way.
func TestPriority(t *testing.T) {
	pods := map[string]map[string]string{
		"the same name": {"file": "a: web(uid=f)", "api": "x: web(uid=a)"},
		"the same UID":  {"file": "a: one(uid=u)", "api": "x: two(uid=u)"},
		"both":          {"file": "a: web(uid=u)", "api": "x: web(uid=u,image=2)"},
	}
	for what, texts := range pods {
		for _, order := range [][]string{{"file", "api"}, {"api", "file"}} {
			for _, came := range [][]string{{"file", "api"}, {"api", "file"}} {
				winner, loser := order[0], order[1]
				goes := map[string]func(*merge.Merger) *revision.Revision{
					"the winner's pod goes":    func(m *merge.Merger) *revision.Revision { return m.Apply(mergetest.Set(winner, 3, "")) },
					"the winner's source goes": func(m *merge.Merger) *revision.Revision { return m.Configure(named([]string{loser})) },
					"the order is turned round": func(m *merge.Merger) *revision.Revision {
						return m.Configure(named([]string{loser, winner}))
					},
				}
				for how, take := range goes {
					t.Run(fmt.Sprintf("%s, configured %v, came %v, %s", what, order, came, how), func(t *testing.T) {
						m := merge.New(named(order), merge.Stored{})
						for i, source := range came {
							m.Apply(mergetest.Set(source, int64(i+1), texts[source]))
						}
						wantServed(t, m, winner)
						wantWaiting(t, m, loser, winner)
						rev := take(m)
						if len(rev.Changes) != 2 || rev.Changes[0].Op != revision.REMOVE || rev.Changes[0].Source != winner ||
							rev.Changes[1].Op != revision.ADD || rev.Changes[1].Source != loser {
							t.Errorf("the revision is %v; want REMOVE of %s's pod and then ADD of %s's", opsOf(rev), winner, loser)
						}
						wantServed(t, m, loser)
						if slices.Contains(rev.Sources, winner) {
							wantWaiting(t, m, winner, loser)
						}
					})
				}
			}
		}
	}
}

// wantServed fails unless the source has the only served pod.
func wantServed(t *testing.T, m *merge.Merger, source string) {
	t.Helper()
	for _, s := range m.Sources() {
		if want := map[bool]int{true: 1}[s.Name == source]; s.Pods != want {
			t.Errorf("%d pods of %s are served; want %d", s.Pods, s.Name, want)
		}
	}
}

// wantWaiting fails unless a pod of the first source is shown as the only one that waits, for a pod of the
// second.
func wantWaiting(t *testing.T, m *merge.Merger, waits, winner string) {
	t.Helper()
	for _, s := range m.Sources() {
		var got []string
		for _, f := range s.Findings {
			if f.Severity == manifest.Conflict {
				got = append(got, f.Conflict.Winner.Source)
			}
		}
		if want := map[bool][]string{true: {winner}}[s.Name == waits]; !slices.Equal(got, want) {
			t.Errorf("pods of %s wait for pods of %v; want %v", s.Name, got, want)
		}
	}
}
