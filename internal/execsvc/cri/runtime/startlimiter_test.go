package runtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// queue acquires slots one after the other, and counts them.
type queue struct {
	*startLimiter
	got int
}

func (q *queue) join(t *testing.T, n int) {
	for range n {
		go func() {
			if err := q.acquire(t.Context()); err == nil {
				q.mu.Lock()
				q.got++
				q.mu.Unlock()
			}
		}()
		synctest.Wait()
	}
}

func (q *queue) want(t *testing.T, n int) {
	t.Helper()
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.got != n {
		t.Fatalf("%d have a slot; want %d", q.got, n)
	}
}

// TestSlots: a few slots are in use at a time; each one that is released goes to the next.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{startLimiter: &startLimiter{few: 2, limit: 2}}
		q.join(t, 5)
		for n := 2; n < 5; n++ {
			q.want(t, n)
			// Starts that end keep the limit as it is, however long that goes on.
			time.Sleep(startPatience - time.Millisecond)
			q.want(t, n)
			q.release()
		}
		q.want(t, 5)
		q.release()
		q.release()
		if q.taken != 0 || q.limit != 2 || q.stuck != nil {
			t.Errorf("at the end %d slots are taken, of %d, and the timer is %v; want 0 of 2 and none", q.taken, q.limit, q.stuck)
		}
	})
}

// TestStartsThatHang: starts that hang delay others only shortly, and afterwards the limit is a few again.
func TestStartsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{startLimiter: &startLimiter{few: 2, limit: 2}}
		q.join(t, 100)
		for _, want := range []int{2, 4, 8, 16, 32, 64, 100} {
			q.want(t, want)
			time.Sleep(startPatience)
		}
		// All hang. A new one waits once.
		q.join(t, 3)
		q.want(t, 100)
		time.Sleep(startPatience)
		q.want(t, 102)
		time.Sleep(startPatience)
		q.want(t, 103)
		for range 103 {
			q.release()
		}
		q.join(t, 3)
		q.want(t, 105)
		q.release()
		q.want(t, 106)
	})
}

// TestSlotsGivenUp: a caller that no longer waits takes no slot from others, not even one that it gets at that moment.
func TestSlotsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{startLimiter: &startLimiter{few: 1, limit: 1}}
		q.join(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { err = q.acquire(ctx) }()
		synctest.Wait()
		q.join(t, 1)
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the one that gave up got %v; want %v", err, context.Canceled)
		}
		q.release()
		q.want(t, 2)
		q.release()
		if q.taken != 0 {
			t.Errorf("%d slots are taken; want none", q.taken)
		}
	})
}

// TestNoSlotForARemovedPod: a caller whose pod was removed gets no slot, neither a free one nor one that is released at
// that moment.
func TestNoSlotForARemovedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &startLimiter{few: 1, limit: 1}
		removed, cancel := context.WithCancel(t.Context())
		cancel()
		if err := q.acquire(removed); !errors.Is(err, context.Canceled) {
			t.Errorf("with a free slot: %v; want %v", err, context.Canceled)
		}
		for range 50 {
			if err := q.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var err error
			go func() { err = q.acquire(ctx) }()
			synctest.Wait()
			cancel()
			q.release()
			synctest.Wait()
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("with a slot that is released meanwhile: %v; want %v", err, context.Canceled)
			}
		}
		if q.taken != 0 || len(q.waiting) != 0 {
			t.Errorf("at the end %d slots are taken and %d wait; want none", q.taken, len(q.waiting))
		}
	})
}

// TestSlotsAreFair: slots are given in the order of the requests.
func TestSlotsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &startLimiter{few: 1, limit: 1}
		if err := q.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []int
		for n := range 5 {
			go func() {
				if err := q.acquire(t.Context()); err == nil {
					order = append(order, n)
					q.release()
				}
			}()
			synctest.Wait()
		}
		q.release()
		synctest.Wait()
		for n, got := range order {
			if got != n {
				t.Fatalf("the slots went to %v; want them in the order of the requests", order)
			}
		}
		if len(order) != 5 {
			t.Fatalf("%d slots were given; want 5", len(order))
		}
	})
}
