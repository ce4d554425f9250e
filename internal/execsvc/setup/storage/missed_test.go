package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// TestMissed: a volume that gets ready, or is released, after its pod's sync has failed wakes the pod at once, also if its driver hadn't
// been there or hadn't answered. A pod that has waited for it isn't woken.
func TestMissed(t *testing.T) {
	for name, fail := range map[string]error{
		"refused": &Error{Final, errors.New("no")}, "uncertain": &Error{Uncertain, errors.New("no")}, "not sent": &Error{NotSent, errors.New("no driver")},
	} {
		for _, word := range []string{"stage", "publish", "unpublish"} {
			t.Run(word+" "+name, func(t *testing.T) {
				dir, d := t.TempDir(), newTruth()
				synctest.Test(t, func(t *testing.T) {
					woken := make(chan types.UID, 10)
					n := start(t, dir, d, func(c *Config) { c.Wake = func(uid types.UID) { woken <- uid } })
					d.answer(func(_ context.Context, call string) error {
						if strings.HasPrefix(call, word+" ") {
							return fail
						}
						return nil
					})
					step := func() error { return n.setUp(pod("u1", "h")) }
					if word == "unpublish" {
						n.mustSetUp(pod("u1", "h"))
						step = func() error { return n.manager.TearDown(t.Context(), "u1") }
					}
					if err := step(); err == nil {
						t.Fatal("the step doesn't fail")
					}
					time.Sleep(10 * time.Minute)
					if len(woken) > 0 {
						t.Fatal("the pod is woken while the driver fails")
					}
					d.answer(nil)
					failing := time.Now()
					select {
					case uid := <-woken:
						if uid != "u1" {
							t.Errorf("pod %s is woken", uid)
						}
					case <-time.After(time.Hour):
						t.Fatal("the pod isn't woken")
					}
					if took := time.Since(failing); took > 2*maxPause {
						t.Errorf("the pod is woken after %v", took)
					}
					if err := step(); err != nil {
						t.Fatal(err)
					}
					n.mustTearDown("u1")
					n.empty()
					n.mustSetUp(pod("u2", "h"))
					n.mustTearDown("u2")
					time.Sleep(time.Hour)
					if len(woken) > 0 {
						t.Errorf("pod %s is woken once more", <-woken)
					}
					if len(n.missed) > 0 {
						t.Errorf("%v is still known", n.missed)
					}
				})
			})
		}
	}
}

// TestMissedAtTheEnd: a worker that gives up after the driver's answer, and before the operation has ended, is woken: the end of the
// operation and the look for such workers are one step.
func TestMissedAtTheEnd(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		synctest.Wait()
		late := errors.New("late")
		for target, e := range n.targets {
			if err := n.miss(e, target, func(*state) bool { return false }, late); !errors.Is(err, late) {
				t.Errorf("the worker has the error %v", err)
			}
			op := operation{publish, target}
			e.current, e.abandon = &op, func() {}
			if _, missed := n.finish(t.Context(), e, op, e.state.Publication(target).Call, nil, nil); !missed || len(n.missed) != 0 {
				t.Errorf("missed: %v; still known: %v", missed, n.missed)
			}
		}
		n.mustTearDown("u1")
	})
}

// TestWaitedAgain: a pod whose worker waits again for what it went on without isn't woken: it has the result.
func TestWaitedAgain(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan types.UID, 10)
		n := start(t, dir, d, func(c *Config) { c.Wake = func(uid types.UID) { woken <- uid } })
		open := make(chan struct{})
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish ") {
				<-open
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() { given <- n.manager.SetUp(ctx, volume.Request{Pod: pod("u1", "h")}) }()
		synctest.Wait()
		cancel()
		if err := <-given; err == nil {
			t.Fatal("the pod's sync doesn't end")
		}
		go func() { given <- n.setUp(pod("u1", "h")) }()
		synctest.Wait()
		close(open)
		if err := <-given; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(woken) > 0 {
			t.Error("the pod is woken")
		}
		n.mustTearDown("u1")
	})
}
