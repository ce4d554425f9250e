package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

var rejected = Result{Rejected: true}

// reject makes the syncs of a pod return Rejected, with an error or without.
func (h *harness) reject(call string, err error) {
	h.plan(call, func(context.Context) (Result, error) { return rejected, err })
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func TestNextRejection(t *testing.T) {
	var r rejections
	now := time.Unix(1000, 0)
	for i, c := range []struct{ after, want int }{
		{0, 10}, {10, 20}, {20, 40}, {40, 80}, {80, 160}, {160, 300}, {300, 300},
		// After an early sync it waits for the rest of the pause; a late sync starts the next pause.
		{100, 200}, {199, 1}, {1, 300}, {5000, 300},
	} {
		now = now.Add(seconds(c.after))
		if got := r.next(now, 10*time.Second, 5*time.Minute); got != seconds(c.want) {
			t.Fatalf("%d: pause %v; want %v", i, got, seconds(c.want))
		}
	}
}

// After the clock was set back the pod waits no longer than its pause.
func TestNextRejectionAfterClockSetBack(t *testing.T) {
	var r rejections
	now := time.Unix(1_000_000, 0)
	r.next(now, 10*time.Second, 5*time.Minute)
	if got := r.next(now.Add(-time.Hour), 10*time.Second, 5*time.Minute); got != 10*time.Second {
		t.Errorf("pause %v; want 10s", got)
	}
}

// A rejected pod is synced again after pauses: no event reports that it could be admitted now.
func TestRejectedPodIsSyncedAgain(t *testing.T) {
	for name, err := range map[string]error{"not started": nil, "going on as it was": errors.New("not so")} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				h.reject("sync a", err)
				h.Update(newPod("a", "web"))
				h.want("sync a")
				for _, pause := range []int{10, 20, 40, 80, 160, 300, 300} {
					h.wantPause(seconds(pause), "sync a")
				}
				if got, _ := h.Get("a"); got.State != Syncing || !errors.Is(got.Err, err) {
					t.Errorf("state %v, error %v", got.State, got.Err)
				}
				if n := strings.Count(h.log.String(), "\n"); n != 1 {
					t.Errorf("%d lines of log; want one for all attempts: %s", n, h.log)
				}
				h.fail("sync a", nil)
				h.wantPause(300*time.Second, "sync a")
				// It was admitted: the next rejection is a first one.
				h.reject("sync a", err)
				h.Sync("a")
				h.want("sync a")
				h.wantPause(10*time.Second, "sync a")
			})
		})
	}
}

// A sync during a pause neither shortens nor lengthens the pauses.
func TestRejectedPodIsSyncedDuringPause(t *testing.T) {
	run(t, func(h *harness) {
		h.reject("sync a", nil)
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.wantPause(10*time.Second, "sync a")
		h.clock.Step(5 * time.Second)
		h.Sync("a")
		h.want("sync a")
		same := newPod("a", "web")
		same.ResourceVersion, same.Status.Phase = "2", v1.PodFailed
		h.Update(same)
		h.want("sync a")
		h.wantPause(15*time.Second, "sync a")
		h.wantPause(40*time.Second, "sync a")
	})
}

func TestChangedManifestResetsPauses(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"spec":        func(p *v1.Pod) { p.Spec.HostNetwork = true },
		"labels":      func(p *v1.Pod) { p.Labels = map[string]string{"app": "web"} },
		"annotations": func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				h.reject("sync a", nil)
				h.Update(newPod("a", "web"))
				h.want("sync a")
				h.wantPause(10*time.Second, "sync a")
				h.wantPause(20*time.Second, "sync a")
				pod := newPod("a", "web")
				change(pod)
				h.Update(pod)
				h.want("sync a")
				h.wantPause(10*time.Second, "sync a")
				h.wantPause(20*time.Second, "sync a")
				if n := strings.Count(h.log.String(), "\n"); n != 2 {
					t.Errorf("%d lines of log; want one for each manifest: %s", n, h.log)
				}
			})
		})
	}
}

// A rejected pod that is removed ends at once. If it is added again, its pauses begin with the first one.
func TestRejectedPodIsRemoved(t *testing.T) {
	run(t, func(h *harness) {
		h.reject("sync a", nil)
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.wantPause(10*time.Second, "sync a")
		release := h.block("terminate a 30")
		h.Remove(newPod("a", "web"), 30)
		h.want("terminate a 30")
		h.Update(newPod("a", "web"))
		release()
		h.want("clean up a", "purge a", "sync a")
		h.wantPause(10*time.Second, "sync a")
	})
}
