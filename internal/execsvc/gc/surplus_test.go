package gc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// start is when all containers of these tests were made: long ago, also by synctest's clock.
var start = time.Date(1999, 1, 2, 3, 4, 5, 0, time.UTC)

// exited is a container that ended so many minutes after start.
func exited(name string, attempt uint32, minutes int) observed.Container {
	return observed.Container{
		ID: fmt.Sprintf("%s%d", name, attempt), Name: name, Attempt: attempt, State: observed.Exited,
		Created: start, Finished: start.Add(time.Duration(minutes) * time.Minute),
	}
}

func inState(state observed.State, name string, attempt uint32) observed.Container {
	c := exited(name, attempt, 0)
	c.State, c.Finished = state, time.Time{}
	return c
}

// pod has containers as they were read: the latest attempt first.
func pod(uid string, containers ...observed.Container) *observed.Pod {
	return &observed.Pod{UID: types.UID(uid), Namespace: "default", Name: "name-" + uid, Containers: containers}
}

func ids(surplus []ended) []string {
	var out []string
	for _, e := range surplus {
		out = append(out, string(e.pod.UID)+"/"+e.ID)
	}
	return out
}

func TestSurplus(t *testing.T) {
	for name, tc := range map[string]struct {
		found []*observed.Pod
		// unwanted is the UID of a pod that nobody wants.
		unwanted types.UID
		limit    int
		// young is how many minutes after start a container must have ended to be too young. Zero: none is.
		young int
		want  []string
	}{
		"any number": {found: []*observed.Pod{pod("p", exited("c", 1, 1), exited("c", 0, 0))}, limit: -1},
		"no more than may be": {
			found: []*observed.Pod{pod("p", exited("c", 1, 1), exited("c", 0, 0))}, limit: 2,
		},
		"the oldest of one name": {
			found: []*observed.Pod{pod("p", exited("c", 2, 3), exited("c", 1, 2), exited("c", 0, 1))}, limit: 1,
			want: []string{"p/c0", "p/c1"},
		},
		"who has most, though others are older": {
			found: []*observed.Pod{
				pod("a", exited("c", 3, 14), exited("c", 2, 13), exited("c", 1, 12), exited("c", 0, 11)),
				pod("b", exited("c", 1, 2), exited("c", 0, 1)),
			},
			limit: 4, want: []string{"a/c0", "a/c1"},
		},
		"names of one pod are counted apart": {
			found: []*observed.Pod{pod("p", exited("x", 2, 9), exited("x", 1, 8), exited("y", 1, 2), exited("x", 0, 7), exited("y", 0, 1))},
			limit: 4, want: []string{"p/x0"},
		},
		"the oldest of equals": {
			found: []*observed.Pod{
				pod("a", exited("c", 1, 8), exited("c", 0, 3)), pod("b", exited("c", 1, 9), exited("c", 0, 2)),
			},
			limit: 3, want: []string{"b/c0"},
		},
		"one with a successor that runs goes before the latest of its name": {
			found: []*observed.Pod{pod("a", exited("c", 0, 1)), pod("b", inState(observed.Running, "c", 8), exited("c", 7, 9))},
			limit: 1, want: []string{"b/c7"},
		},
		"never the latest of its name, though more are left than may be": {
			found: []*observed.Pod{pod("a", exited("c", 0, 1)), pod("b", exited("c", 4, 9), exited("c", 3, 8), exited("i", 0, 7))},
			limit: 0, want: []string{"b/c3"},
		},
		"those that stay count": {
			found: []*observed.Pod{pod("a", exited("c", 1, 2), exited("c", 0, 1)), pod("b", exited("c", 0, 3))}, limit: 2,
			want: []string{"a/c0"},
		},
		"of a pod that nobody wants first, with its latest": {
			found: []*observed.Pod{
				pod("a", exited("c", 2, 3), exited("c", 1, 2), exited("c", 0, 1)), pod("b", exited("c", 1, 9), exited("c", 0, 8)),
			},
			unwanted: "b", limit: 2, want: []string{"b/c0", "b/c1", "a/c0"},
		},
		"none that is too young, though they count": {
			found: []*observed.Pod{pod("p", exited("c", 3, 4), exited("c", 2, 3), exited("c", 1, 2), exited("c", 0, 1))},
			limit: 0, young: 3, want: []string{"p/c0", "p/c1"},
		},
		"the attempt tells which is the latest, whatever the clock said": {
			found: []*observed.Pod{pod("p", exited("c", 1, 1), exited("c", 0, 60))}, limit: 1,
			want: []string{"p/c0"},
		},
		"only what has ended": {
			found: []*observed.Pod{
				pod("p", inState(observed.Running, "a", 1), inState(observed.Created, "b", 1), inState(observed.Unknown, "c", 1),
					exited("d", 0, 1)),
			},
			unwanted: "p",
			limit:    0, want: []string{"p/d0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			until := start.AddDate(1, 0, 0)
			if tc.young > 0 {
				until = start.Add(time.Duration(tc.young)*time.Minute - 1)
			}
			wanted := func(uid types.UID) bool { return uid != tc.unwanted }
			if diff := cmp.Diff(tc.want, ids(surplus(tc.found, wanted, tc.limit, until))); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
		})
	}
}

// A container of which only the list was read has no time of its end.
func TestAgeWithoutEnd(t *testing.T) {
	c := exited("c", 0, 0)
	c.Finished = time.Time{}
	for until, want := range map[time.Time]int{start: 1, start.Add(-1): 0} {
		if got := surplus([]*observed.Pod{pod("p", c)}, none, 0, until); len(got) != want {
			t.Errorf("of a container that was made at %v, %d go that are as old as %v; want %d", start, len(got), until, want)
		}
	}
}

// Whatever is there: no more goes than has to, nothing that is needed, and nothing that matters more than what stays.
func TestSurplusOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var found []*observed.Pod
		for p := range rapid.IntRange(0, 4).Draw(t, "pods") {
			var containers []observed.Container
			for _, name := range []string{"x", "y"} {
				for attempt := rapid.IntRange(0, 4).Draw(t, "attempts"); attempt > 0; attempt-- {
					c := exited(name, uint32(attempt), rapid.IntRange(0, 9).Draw(t, "minutes"))
					c.State = rapid.SampledFrom([]observed.State{observed.Exited, observed.Exited, observed.Running}).Draw(t, "state")
					containers = append(containers, c)
				}
			}
			found = append(found, pod(fmt.Sprint(p), containers...))
		}
		wanted := func(uid types.UID) bool { return uid != "0" }
		limit := rapid.IntRange(0, 12).Draw(t, "limit")
		until := start.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "until")) * time.Minute)

		goes := surplus(found, wanted, limit, until)
		var stays []ended
		all := allEnded(found, wanted)
		for _, e := range all {
			if !e.needed && !e.at().After(until) && !slices.Contains(ids(goes), ids([]ended{e})[0]) {
				stays = append(stays, e)
			}
		}
		if excess := max(len(all)-limit, 0); len(goes) != excess && (len(goes) > excess || len(stays) > 0) {
			t.Fatalf("%d go of %d, though %d may be left and %d more could go", len(goes), len(all), limit, len(stays))
		}
		for _, g := range goes {
			if g.State != observed.Exited || g.at().After(until) {
				t.Fatalf("%s goes, in state %v, ended at %v", g.ID, g.State, g.at())
			}
			if latest := g.pod.Latest(g.Name); wanted(g.pod.UID) && latest.ID == g.ID {
				t.Fatalf("%v goes, the latest of its name of a pod that is wanted", ids([]ended{g}))
			}
			for _, s := range stays {
				switch {
				case g.wanted && !s.wanted:
					t.Fatalf("%v goes, and %v stays, whose pod nobody wants", ids([]ended{g}), ids([]ended{s}))
				case g.wanted == s.wanted && g.newer < s.newer:
					t.Fatalf("%v goes, and %v stays, of which there are more", ids([]ended{g}), ids([]ended{s}))
				case g.wanted == s.wanted && g.newer == s.newer && g.at().After(s.at()):
					t.Fatalf("%v goes, and %v stays, which is older", ids([]ended{g}), ids([]ended{s}))
				}
			}
		}
	})
}
