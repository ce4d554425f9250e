package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
