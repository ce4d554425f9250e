package csinode

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRefusals: what the API server refuses of one driver is logged once. Other drivers aren't affected, and what the
// objects had of that driver stays.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		driver Driver
		// repair has the API server accept the driver.
		repair func(w *world)
		want   string
	}{
		"a label that a node may not set": {
			driver: Driver{Name: "a", NodeID: "i", Topology: map[string]string{"node-restriction.kubernetes.io/x": "y"}},
			repair: func(w *world) { w.serve(func(s *apiServer) { s.deny = nil }) },
			want:   "a=i[node-restriction.kubernetes.io/x]0",
		},
		"a topology that differs from the Node's": {
			driver: Driver{Name: "a", NodeID: "i", Topology: map[string]string{"team": "y"}},
			repair: func(w *world) { w.serve(func(s *apiServer) { s.node.Labels["team"] = "y" }) },
			want:   "a=i[team]0",
		},
		"an ID": {
			driver: Driver{Name: "a", NodeID: "refused"},
			repair: func(w *world) { w.register(Driver{Name: "a", NodeID: "i"}, b) },
			want:   "a=i[]0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.serve(func(s *apiServer) {
					s.deny = func(_, what, body string) string {
						if what == "nodes" && strings.Contains(body, "node-restriction") {
							return "is not allowed to modify labels: node-restriction.kubernetes.io/x"
						}
						return ""
					}
				})
				w.run(t)
				w.register(tc.driver, b)
				pass(time.Hour)
				if got := w.entries(); got != entryOfB {
					t.Errorf("the CSINode has %q; want %q", got, entryOfB)
				}
				w.serve(func(s *apiServer) {
					if s.node.Labels["team"] != "x" {
						t.Error("a label of the Node was changed")
					}
				})
				if n := w.logged("is refused"); n != 1 {
					t.Errorf("the refusal is logged %d times", n)
				}
				tc.repair(w)
				pass(2 * refusedCheck)
				if got := w.entries(); got != entryOfB+" "+tc.want {
					t.Errorf("after the repair the CSINode has %q; want %q", got, tc.want)
				}
				if n := w.logged("no longer refused"); n != 1 {
					t.Errorf("the end is logged %d times", n)
				}
			})
		})
	}
}

// TestRefusedChange: an API server that refuses an entry's change keeps the entry.
func TestRefusedChange(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		w.register(a)
		pass(floor)
		w.serve(func(s *apiServer) {
			s.deny = func(_, what, _ string) string {
				if what == "csinodes" {
					return "allocatable is immutable"
				}
				return ""
			}
		})
		c := a
		c.MaxVolumes = 9
		w.register(c)
		pass(time.Hour)
		w.want(t, entryOfA, idsOfA)
		if n := w.logged("is refused"); n != 1 {
			t.Errorf("the refusal is logged %d times", n)
		}
	})
}

// TestFlappingDriver: the writes for a driver whose ID changes all the time are bounded, and the last ID is written.
func TestFlappingDriver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		for i := range 3600 {
			w.register(Driver{Name: "a", NodeID: strconv.Itoa(i)})
			pass(time.Second)
		}
		writes := 0
		for _, call := range w.taken() {
			if !strings.HasPrefix(call, http.MethodGet) {
				writes++
			}
		}
		// Each round has a patch of the Node, and removes and adds an entry.
		if limit := 3 * (burst + int(time.Hour/steady) + 1); writes > limit || writes < limit/2 {
			t.Errorf("%d writes in an hour; want at most %d", writes, limit)
		}
		pass(2 * steady)
		w.want(t, "a=3599[]0", `{"a":"3599"}`)
	})
}

// TestRefresh: a driver with a period is asked again, from when its CSIDriver has one until it ends. A driver that hangs
// delays neither another one nor the CSINode, and its failure is logged once.
func TestRefresh(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		count := func(name string) int {
			w.mu.Lock()
			defer w.mu.Unlock()
			n := w.refreshed[name]
			w.refreshed[name] = 0
			return n
		}
		w.run(t)
		w.register(a, b)
		pass(time.Hour)
		if n := count(a.Name); n > 0 {
			t.Errorf("without a period: %d calls", n)
		}
		w.set(func() {
			w.periods[a.Name], w.periods[b.Name] = time.Minute, time.Second
			w.refresh = func(ctx context.Context, name string) error {
				if name == a.Name {
					return errors.New("no answer")
				}
				<-ctx.Done()
				return ctx.Err()
			}
		})
		pass(time.Hour)
		if n := count(a.Name); n < 55 || n > 60 {
			t.Errorf("with a period of a minute: %d calls in an hour", n)
		}
		if n := count(b.Name); n != 1 {
			t.Errorf("a driver that hangs has %d calls", n)
		}
		if n := w.logged("can't be asked"); n != 1 {
			t.Errorf("the failure is logged %d times", n)
		}
		c := a
		c.MaxVolumes = 3
		w.set(func() {
			w.refresh = func(context.Context, string) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.drivers = []Driver{c}
				close(w.changed)
				w.changed = make(chan struct{})
				return nil
			}
		})
		pass(2 * time.Minute)
		w.want(t, strings.Replace(entryOfA, "]8", "]3", 1), idsOfA)
		w.register()
		count(a.Name)
		pass(time.Hour)
		if n := count(a.Name); n > 0 {
			t.Errorf("after the driver's end: %d calls", n)
		}
	})
}
