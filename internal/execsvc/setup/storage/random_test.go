package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// TestRandom runs random histories of pods, answers and restarts through the goroutines. The driver's own log judges
// them, and nothing is left at the end.
func TestRandom(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) { randomHistory(t, dir, d, seed) })
		})
	}
}

func randomHistory(t *testing.T, dir string, d *truth, seed uint64) {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It must be repeatable.
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	d.answer(func(ctx context.Context, _ string) error {
		bad := errors.New("bad")
		time.Sleep(time.Duration(draw(1000)) * time.Millisecond)
		switch draw(8) {
		case 0:
			return &Error{Final, bad}
		case 1:
			return &Error{Uncertain, bad}
		case 2:
			return &Error{NotSent, bad}
		case 3:
			<-ctx.Done()
			return context.Cause(ctx)
		default:
			return nil
		}
	})
	n, boot := start(t, dir, d, nil), 0
	var ended sync.WaitGroup
	// Calls for one pod don't overlap. A mutex would stop the clock of the test.
	var pods [6]chan struct{}
	for i := range pods {
		pods[i] = make(chan struct{}, 1)
	}
	for range 60 {
		i := draw(len(pods))
		now, uid := n, types.UID(fmt.Sprint("u", i))
		work := func() error {
			return now.manager.SetUp(t.Context(), volume.Request{Pod: pod(string(uid), fmt.Sprint("h", i%3), fmt.Sprint("h", (i+1)%3))})
		}
		if draw(2) == 0 {
			work = func() error { return now.manager.TearDown(t.Context(), uid) }
		}
		ended.Go(func() {
			pods[i] <- struct{}{}
			defer func() { <-pods[i] }()
			_ = work() // It is repeated below.
		})
		time.Sleep(time.Duration(draw(20)) * time.Second)
		if draw(10) == 0 {
			n.stop()
			ended.Wait()
			if draw(3) == 0 {
				boot++
				d.mu.Lock()
				d.staged, d.published = map[string]bool{}, map[string]bool{}
				d.mu.Unlock()
			}
			n = start(t, dir, d, func(c *Config) { c.Boot = fmt.Sprint("boot", boot) })
		}
	}
	ended.Wait()
	d.answer(nil)
	for i := range pods {
		uid := types.UID(fmt.Sprint("u", i))
		deadline := time.Now().Add(time.Hour)
		for n.manager.TearDown(t.Context(), uid) != nil {
			if time.Now().After(deadline) {
				t.Fatalf("%s can't be torn down: %v", uid, n.manager.TearDown(t.Context(), uid))
			}
			time.Sleep(time.Second)
		}
	}
	time.Sleep(time.Hour)
	n.empty()
	n.stop()
}
