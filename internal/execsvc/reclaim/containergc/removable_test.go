package containergc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// start is when all containers of these tests were created: long ago, also by synctest's clock.
var start = time.Date(1999, 1, 2, 3, 4, 5, 0, time.UTC)

// exited returns a container that exited this many minutes after start.
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

// pod returns a pod with its containers in the order of a relist: the latest attempt first.
func pod(uid string, containers ...observed.Container) *observed.Pod {
	return &observed.Pod{UID: types.UID(uid), Namespace: "default", Name: "name-" + uid, Containers: containers}
}

func ids(exited []exitedContainer) []string {
	var out []string
	for _, e := range exited {
		out = append(out, string(e.pod.UID)+"/"+e.ID)
	}
	return out
}

func TestRemovable(t *testing.T) {
	for name, tc := range map[string]struct {
		found []*observed.Pod
		// unwanted is the UID of an unwanted pod.
		unwanted types.UID
		limit    int
		// young is how many minutes after start a container must have exited to be younger than MinAge. Zero
		// means that no container is younger.
		young int
		want  []string
	}{
		"any number": {found: []*observed.Pod{pod("p", exited("c", 1, 1), exited("c", 0, 0))}, limit: -1},
		"within the limit": {
			found: []*observed.Pod{pod("p", exited("c", 1, 1), exited("c", 0, 0))}, limit: 2,
		},
		"the oldest of one name": {
			found: []*observed.Pod{pod("p", exited("c", 2, 3), exited("c", 1, 2), exited("c", 0, 1))}, limit: 1,
			want: []string{"p/c0", "p/c1"},
		},
		"the name with most containers, though others are older": {
			found: []*observed.Pod{
				pod("a", exited("c", 3, 14), exited("c", 2, 13), exited("c", 1, 12), exited("c", 0, 11)),
				pod("b", exited("c", 1, 2), exited("c", 0, 1)),
			},
			limit: 4, want: []string{"a/c0", "a/c1"},
		},
		"names of one pod are counted separately": {
			found: []*observed.Pod{pod("p", exited("x", 2, 9), exited("x", 1, 8), exited("y", 1, 2), exited("x", 0, 7), exited("y", 0, 1))},
			limit: 4, want: []string{"p/x0"},
		},
		"the oldest among equals": {
			found: []*observed.Pod{
				pod("a", exited("c", 1, 8), exited("c", 0, 3)), pod("b", exited("c", 1, 9), exited("c", 0, 2)),
			},
			limit: 3, want: []string{"b/c0"},
		},
		"one with a running successor before the latest of its name": {
			found: []*observed.Pod{pod("a", exited("c", 0, 1)), pod("b", inState(observed.Running, "c", 8), exited("c", 7, 9))},
			limit: 1, want: []string{"b/c7"},
		},
		"never the latest of its name, even above the limit": {
			found: []*observed.Pod{pod("a", exited("c", 0, 1)), pod("b", exited("c", 4, 9), exited("c", 3, 8), exited("i", 0, 7))},
			limit: 0, want: []string{"b/c3"},
		},
		"kept containers count": {
			found: []*observed.Pod{pod("a", exited("c", 1, 2), exited("c", 0, 1)), pod("b", exited("c", 0, 3))}, limit: 2,
			want: []string{"a/c0"},
		},
		"unwanted pods first, with their latest": {
			found: []*observed.Pod{
				pod("a", exited("c", 2, 3), exited("c", 1, 2), exited("c", 0, 1)), pod("b", exited("c", 1, 9), exited("c", 0, 8)),
			},
			unwanted: "b", limit: 2, want: []string{"b/c0", "b/c1", "a/c0"},
		},
		"none that is too young, but it counts": {
			found: []*observed.Pod{pod("p", exited("c", 3, 4), exited("c", 2, 3), exited("c", 1, 2), exited("c", 0, 1))},
			limit: 0, young: 3, want: []string{"p/c0", "p/c1"},
		},
		"the attempt decides the latest, not the clock": {
			found: []*observed.Pod{pod("p", exited("c", 1, 1), exited("c", 0, 60))}, limit: 1,
			want: []string{"p/c0"},
		},
		"exited containers only": {
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
			if diff := cmp.Diff(tc.want, ids(removable(tc.found, wanted, tc.limit, until, start.AddDate(1, 0, 0)))); diff != "" {
				t.Errorf("removable (-want +got):\n%s", diff)
			}
		})
	}
}

// A container without a status has no exit time.
func TestAgeWithoutEnd(t *testing.T) {
	c := exited("c", 0, 0)
	c.Finished = time.Time{}
	for until, want := range map[time.Time]int{start: 1, start.Add(-1): 0} {
		if got := removable([]*observed.Pod{pod("p", c)}, none, 0, until, start); len(got) != want {
			t.Errorf("created at %v: %d removable that exited before %v; want %d", start, len(got), until, want)
		}
	}
}

// A container with an exit time in the future exited before the node's clock was set back: it is removed without
// waiting for the clock.
func TestEndInTheFuture(t *testing.T) {
	found := []*observed.Pod{pod("p", exited("c", 1, 60), exited("c", 0, 59))}
	if got := removable(found, none, 0, start.Add(-time.Minute), start); len(got) != 2 {
		t.Errorf("%d containers with a future exit time are removable; want both", len(got))
	}
}

// For random pods: no more containers are removed than necessary, none that must be kept, and none that ranks after
// one that stays.
func TestRemovableRandom(t *testing.T) {
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

		goes := removable(found, wanted, limit, until, start.Add(time.Hour))
		var stays []exitedContainer
		all := exitedContainers(found, wanted)
		for _, e := range all {
			if !e.keep && !e.at().After(until) && !slices.Contains(ids(goes), ids([]exitedContainer{e})[0]) {
				stays = append(stays, e)
			}
		}
		if excess := max(len(all)-limit, 0); len(goes) != excess && (len(goes) > excess || len(stays) > 0) {
			t.Fatalf("%d of %d removed; the limit is %d, and %d more are removable", len(goes), len(all), limit, len(stays))
		}
		for _, g := range goes {
			if g.State != observed.Exited || g.at().After(until) {
				t.Fatalf("%s removed, in state %v, exited at %v", g.ID, g.State, g.at())
			}
			if latest := g.pod.Latest(g.Name); wanted(g.pod.UID) && latest.ID == g.ID {
				t.Fatalf("%v removed, the latest of its name of a wanted pod", ids([]exitedContainer{g}))
			}
			for _, s := range stays {
				switch {
				case g.podWanted && !s.podWanted:
					t.Fatalf("%v removed, and %v stays, whose pod is unwanted", ids([]exitedContainer{g}), ids([]exitedContainer{s}))
				case g.podWanted == s.podWanted && g.newer < s.newer:
					t.Fatalf("%v removed, and %v stays, whose name has more containers", ids([]exitedContainer{g}), ids([]exitedContainer{s}))
				case g.podWanted == s.podWanted && g.newer == s.newer && g.at().After(s.at()):
					t.Fatalf("%v removed, and %v stays, which is older", ids([]exitedContainer{g}), ids([]exitedContainer{s}))
				}
			}
		}
	})
}
