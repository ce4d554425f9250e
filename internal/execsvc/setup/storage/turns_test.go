package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReplacedTurns: the pod that has waited longest is next, whichever others come and go.
func TestReplacedTurns(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.Claims = perPod{&claims{}, true} })
		const slow = 20 * time.Second
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "stage") || strings.HasPrefix(call, "unstage") {
				time.Sleep(slow)
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			i := 0
			for ; ctx.Err() == nil; i++ {
				p := podWith(fmt.Sprintf("a%03d", i), fmt.Sprint("other", i))
				go func() { _ = n.setUp(p) }()
				time.Sleep(14 * time.Second)
				go func() {
					time.Sleep(2 * time.Second)
					_ = n.manager.TearDown(t.Context(), p.UID)
				}()
			}
			ended <- i
		}()
		time.Sleep(time.Second)
		began := time.Now()
		for n.setUp(podWith("z", "z")) != nil {
			if time.Since(began) > 10*time.Minute {
				t.Error("it is never next")
				break
			}
		}
		if took := time.Since(began); took > 5*slow {
			t.Errorf("it waits for %v", took)
		}
		cancel()
		all := <-ended
		d.answer(nil)
		n.mustTearDown("z")
		time.Sleep(time.Hour)
		for i := range all {
			n.mustTearDown(pod(fmt.Sprintf("a%03d", i), "h").UID)
		}
		n.empty()
	})
}

// TestReplacedAtOnce: a pod that waited for the end of another one is tried as soon as the volume is staged for it.
func TestReplacedAtOnce(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		d.answer(func(_ context.Context, call string) error {
			if call == "publish h u2 p2" && d.isPublishedFor("h", "u1") {
				return &Error{Unrepeatable, errors.New("replaced")}
			}
			return nil
		})
		n.claims.version = 2
		_ = n.setUp(pod("u2", "h"))
		time.Sleep(12*time.Minute + 7*time.Second)
		n.mustTearDown("u1")
		began := time.Now()
		n.mustSetUp(pod("u2", "h"))
		if took := time.Since(began); took > time.Second {
			t.Errorf("it waits for %v", took)
		}
		n.mustTearDown("u2")
		n.empty()
	})
}
