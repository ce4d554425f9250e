package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/access"
)

// TestWorkRotation: the identities get the slot in rotation, and the streams of one identity in the order of their
// requests, so that an identity with many streams delays another one by one stream at a time.
func TestWorkRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWorkLimiter()
		l.slots = 1
		first := l.slotFor(t.Context(), access.Caller{Identity: "first"})
		if err := first.hold(); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, name := range []string{"many-1", "many-2", "many-3", "few-1", "many-4", "other-1"} {
			identity, _, _ := strings.Cut(name, "-")
			p := l.slotFor(t.Context(), access.Caller{Identity: identity})
			go func() {
				if err := p.hold(); err != nil {
					t.Error(err)
				}
				order = append(order, name) // One stream runs at a time.
				p.release()
			}()
			synctest.Wait()
		}
		if len(order) > 0 {
			t.Errorf("%v run beside the first stream; want none", order)
		}
		first.release()
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[many-1 few-1 other-1 many-2 many-3 many-4]"; got != want {
			t.Errorf("the streams get the slot in the order %v; want %v", got, want)
		}
		if l.used != 0 || l.queue.Len() != 0 {
			t.Errorf("in the end %d slots are used, and %d streams are queued; want none", l.used, l.queue.Len())
		}
	})
}

// TestWorkEnds: a stream that ends while it is queued leaves nothing behind, and a stream that ends just when
// it gets the slot returns it.
func TestWorkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWorkLimiter()
		l.slots = 1
		first := l.slotFor(t.Context(), access.Caller{Identity: "first"})
		if err := first.hold(); err != nil {
			t.Fatal(err)
		}
		for _, late := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- l.acquire(ctx, "ends") }()
			synctest.Wait()
			if late {
				// The slot is granted, and the stream hasn't run yet.
				l.mu.Lock()
				granted := l.queue.Waiters("ends")[0]
				l.mu.Unlock()
				if !l.withdraw("ends", granted) {
					t.Fatal("the stream doesn't wait")
				}
				l.used++
				cancel()
				synctest.Wait()
			}
			cancel()
			if err := <-ended; err == nil {
				t.Error("a stream that has ended gets a slot")
			}
			if l.used != 1 || l.queue.Len() != 0 {
				t.Errorf("late %v: %d slots are used and %d streams are queued; want the first stream only", late, l.used, l.queue.Len())
			}
		}
		first.release()
		if l.used != 0 {
			t.Errorf("%d slots are used; want none", l.used)
		}
	})
}

// TestWorkOwners: root's streams run while all slots are held.
func TestWorkOwners(t *testing.T) {
	l := newWorkLimiter()
	for range l.slots {
		if err := l.acquire(t.Context(), "greedy"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.slotFor(ctx, access.Caller{Identity: "uid:0"}).hold(); err != nil {
		t.Errorf("root: %v; want no wait", err)
	}
	if err := l.slotFor(ctx, access.Caller{Identity: "greedy"}).hold(); err == nil {
		t.Error("another stream of the identity runs though all slots are held")
	}
}

// TestWorkPause: while streams are queued, a slot stays empty for as long as streams have run, so that other
// goroutines get the CPU. It doesn't if no stream is queued.
func TestWorkPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWorkLimiter()
		l.slots = 1
		granted := func() <-chan time.Duration {
			began, after := time.Now(), make(chan time.Duration, 1)
			go func() {
				if err := l.acquire(t.Context(), "any"); err != nil {
					t.Error(err)
				}
				after <- time.Since(began)
			}()
			synctest.Wait()
			return after
		}
		<-granted()
		l.release(time.Second)
		if got := <-granted(); got != 0 {
			t.Errorf("a stream waits %v though the slot is free and no stream was queued; want no wait", got)
		}
		for _, tc := range []struct{ ran, want time.Duration }{
			{pauseAfter / 2, 0}, {pauseAfter, 3 * pauseAfter / 2}, {time.Hour, maxSlotPause},
		} {
			next := granted()
			l.release(tc.ran)
			if got := <-next; got != tc.want {
				t.Errorf("after a stream that ran for %v the next one waits %v; want %v", tc.ran, got, tc.want)
			}
		}
		l.release(0)
	})
}
