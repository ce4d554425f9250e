package csinode

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRefreshNow: a driver that is asked periodically is asked at once, once for requests at the same time, and then has a whole period.
// Other drivers aren't asked.
func TestRefreshNow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.periods["a"] = time.Hour
		w.register(Driver{Name: "a", NodeID: "1"}, Driver{Name: "b", NodeID: "1"})
		k := New(w.cfg)
		k.RefreshNow("a") // It isn't running.
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		defer running.Wait()
		defer cancel()
		synctest.Wait()
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.refreshed["a"] != n || w.refreshed["b"] != 0 {
				t.Errorf("the drivers were asked %v times; want %d for a", w.refreshed, n)
			}
		}
		want(0)
		k.RefreshNow("a")
		want(1)
		// While the driver doesn't answer, requests are one.
		answer := make(chan struct{})
		w.mu.Lock()
		w.refresh = func(context.Context, string) error { <-answer; return nil }
		w.mu.Unlock()
		k.RefreshNow("a")
		want(2)
		for range 5 {
			k.RefreshNow("a")
			k.RefreshNow("b")
			k.RefreshNow("absent")
		}
		want(2)
		close(answer)
		want(3)
		pass(50 * time.Minute)
		want(3)
		pass(20 * time.Minute)
		want(4)
	})
}
