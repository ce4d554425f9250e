package imagegc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// prune prunes, and returns the names of what was pruned, and of what failed with the errors.
func (h *harness) prune(c *Collector, p Pruning) (out []string) {
	h.t.Helper()
	pruned, err := c.Prune(h.t.Context(), p)
	if err != nil {
		h.t.Error(err)
	}
	for _, i := range pruned.Images {
		out = append(out, strings.TrimPrefix(i.GetId(), "sha256:"))
	}
	for _, f := range pruned.Failures {
		out = append(out, fmt.Sprintf("%s: %v", strings.TrimPrefix(f.Image.GetId(), "sha256:"), f.Err))
	}
	return out
}

// untag removes the tags of images.
func (h *harness) untag(names ...string) {
	h.set(func() {
		for _, i := range h.images {
			if name := strings.TrimPrefix(i.GetId(), "sha256:"); slices.Contains(names, name) {
				i.RepoTags, i.RepoDigests = nil, []string{"docker.io/library/" + name + "@sha256:" + strings.Repeat("0", 64)}
			}
		}
	})
}

// What each kind of prune removes. In a dry run it is the same, and nothing is removed. Young images are removed too.
func TestPrune(t *testing.T) {
	for name, tc := range map[string]struct {
		p    Pruning
		want []string
	}{
		"untagged": {Pruning{}, []string{"dangling"}},
		"all":      {Pruning{All: true}, []string{"dangling", "idle", "young"}},
		"some":     {Pruning{All: true, IDs: []string{"sha256:idle", "sha256:used", "sha256:gone"}}, []string{"idle"}},
		"none":     {Pruning{IDs: []string{"sha256:idle"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *harness) {
				h.add("idle", "dangling", "used", "pinned", "needed", "danglingused", "pulled", "danglingpulled")
				h.images[3].Pinned = true
				h.untag("dangling", "danglingused", "danglingpulled")
				h.use("used", "danglingused")
				h.needed, h.pulling = []string{"needed"}, []string{"docker.io/library/pulled:latest", "docker.io/library/danglingpulled:2"}
				c := h.run()
				pass(period)
				h.add("young")
				tc.p.DryRun, tc.p.Caller = true, "uid:0"
				if diff := cmp.Diff(tc.want, h.prune(c, tc.p)); diff != "" {
					t.Errorf("dry run (-want +got):\n%s", diff)
				}
				h.want("after a dry run")
				tc.p.DryRun = false
				if diff := cmp.Diff(tc.want, h.prune(c, tc.p)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				var did []string
				for _, name := range tc.want {
					did = append(did, "remove "+name)
				}
				h.want("after it", did...)
				if got := h.logged("caller=uid:0"); got != len(tc.want) {
					t.Errorf("%d lines with the caller in the log", got)
				}
				if got := h.prune(c, tc.p); got != nil {
					t.Errorf("again: %v", got)
				}
				families, err := h.registry.Gather()
				if err != nil || len(families) != 0 {
					t.Errorf("counted as garbage collection: %v, %v", families, err)
				}
			})
		})
	}
}

// What can't be verified removes nothing.
func TestPruneUnverified(t *testing.T) {
	broken := errors.New("broken")
	for _, call := range []string{"ListImages", "ListContainers", "RequiredImages", "ImageStatus needed"} {
		inBubble(t, func(t *testing.T, h *harness) {
			h.add("idle")
			h.needed = []string{"needed"}
			c := h.run()
			h.set(func() { h.fails[call] = broken })
			if got, err := c.Prune(t.Context(), Pruning{All: true}); !errors.Is(err, broken) || len(got.Images)+len(got.Failures) > 0 {
				t.Errorf("%s fails: %v, %v", call, got, err)
			}
			h.want(call)
		})
	}
}

// A runtime that has just started may list an image and not find it by its name yet. A pod's image stays then too, by each
// kind of name.
func TestPrunePartialAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("tagged", "digested", "byid", "idle")
		h.untag("digested", "byid")
		hex := strings.Repeat("7", 64)
		h.images[2].Id = "sha256:" + hex
		h.hidden = true
		h.needed = []string{"tagged", "digested@sha256:" + strings.Repeat("0", 64), hex}
		c := h.run()
		if diff := cmp.Diff([]string{"idle"}, h.prune(c, Pruning{All: true})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		h.want("pruned", "remove idle")
	})
}

// Nothing is removed before all pods are known, however long that takes, nor if a source becomes unready meanwhile.
func TestPruneNotReady(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		var unready []string
		h.cfg.Unready = func() []string { return unready }
		h.add("a", "b")
		h.unsettled = true
		c := h.run()
		pass(3 * period)
		for want, names := range map[string][]string{"not ready: api, file": {"api", "file"}, "hasn't sent its sources": nil} {
			unready = names
			if _, err := c.Prune(t.Context(), Pruning{All: true}); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %s", err, want)
			}
		}
		h.set(func() { h.unsettled, h.removing = false, func(string) { h.unsettled = true } })
		if got := h.prune(c, Pruning{All: true}); len(got) != 2 || got[0] != "a" || !strings.Contains(got[1], "not all pods") {
			t.Errorf("%v; want a, and why b stays", got)
		}
		h.want("a source became unready", "remove a")
	})
}

// A pod or a pull that begins meanwhile keeps its image. A failure keeps no other image from being removed.
func TestPruneMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("a", "b", "c", "d", "e")
		c := h.run()
		h.fails["RemoveImage sha256:d"] = errors.New("in use")
		h.removing = func(string) { h.needed, h.pulling = []string{"b"}, []string{"docker.io/library/c:2"} }
		want := []string{"a", "e", "d: remove image sha256:d: in use"}
		if diff := cmp.Diff(want, h.prune(c, Pruning{All: true})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		h.want("removed", "remove a", "remove e")
	})
}

// An image is in use as of the last round. A caller that leaves doesn't wait for a round that hangs.
func TestLastUsedAndTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("a", "b")
		h.use("a")
		c := h.run()
		pass(period)
		at := time.Now()
		if used := c.LastUsed(); len(used) != 1 || !used["sha256:a"].Equal(at) {
			t.Errorf("last used: %v; want a, at %v", used, at)
		}
		c.turn <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Prune(ctx, Pruning{All: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("during a round: %v", err)
		}
		<-c.turn
		synctest.Wait()
		h.want("nothing")
	})
}

// A prune may be bounded, and ends with its caller.
func TestPruneEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("a", "b", "c", "d")
		c := h.run()
		if got, err := c.Prune(t.Context(), Pruning{All: true, Max: 2}); err != nil || len(got.Images) != 2 || !got.More {
			t.Errorf("two: %v, %v", got, err)
		}
		h.want("two", "remove a", "remove b")
		if got, err := c.Prune(t.Context(), Pruning{All: true, Max: 2, DryRun: true}); err != nil || len(got.Images) != 2 || got.More {
			t.Errorf("the last two: %v, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		h.removing = func(string) { cancel() }
		if got, err := c.Prune(ctx, Pruning{All: true}); err != nil || len(got.Images) != 1 || len(got.Failures) > 0 {
			t.Errorf("the caller leaves: %v, %v", got, err)
		}
		h.want("the caller leaves", "remove c")
	})
}

// A runtime that doesn't answer ends a prune: garbage collection waits for it.
func TestPruneHungRuntime(t *testing.T) {
	for _, err := range []error{grpcstatus.Error(codes.DeadlineExceeded, "x"), grpcstatus.Error(codes.Unavailable, "x"), context.DeadlineExceeded} {
		inBubble(t, func(t *testing.T, h *harness) {
			h.add("a", "b", "c")
			c := h.run()
			h.fails["RemoveImage sha256:b"] = err
			got, perr := c.Prune(t.Context(), Pruning{All: true})
			if perr != nil || len(got.Images) != 1 || len(got.Failures) != 1 || got.Failures[0].Image.GetId() != "sha256:b" || !got.More {
				t.Errorf("%v: %v, %v", err, got, perr)
			}
			h.want("until the runtime hangs", "remove a")
		})
	}
}

func TestIsOfAny(t *testing.T) {
	if isOfAny(&runtimeapi.Image{RepoTags: []string{"?"}}, nil) || !isOfAny(&runtimeapi.Image{RepoTags: []string{"?"}}, []string{"app"}) {
		t.Error("while nothing is pulled, no name matters; otherwise one that can't be read does")
	}
	i := &runtimeapi.Image{RepoTags: []string{"docker.io/library/app:1"}, RepoDigests: []string{"registry.example/lib/app@sha256:" + strings.Repeat("a", 64)}}
	for name, want := range map[string]bool{"app": true, "docker.io/library/app:2": true, "registry.example/lib/app:9": true, "registry.example/lib/app2:9": false, "A": false} {
		if got := isOfAny(i, []string{name}); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
