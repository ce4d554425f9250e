package runtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// queue takes turns one after the other, and counts those that it has got.
type queue struct {
	*turns
	got int
}

func (q *queue) join(t *testing.T, n int) {
	for range n {
		go func() {
			if err := q.take(t.Context()); err == nil {
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
		t.Fatalf("%d have got a turn; want %d", q.got, n)
	}
}

// TestTurns: a few have turns at a time; each that is given back goes to the next.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{turns: &turns{few: 2, limit: 2}}
		q.join(t, 5)
		for n := 2; n < 5; n++ {
			q.want(t, n)
			// Turns that end keep the bound as it is, however long that goes on.
			time.Sleep(turnPatience - time.Millisecond)
			q.want(t, n)
			q.give()
		}
		q.want(t, 5)
		q.give()
		q.give()
		if q.taken != 0 || q.limit != 2 || q.stuck != nil {
			t.Errorf("at the end %d turns are taken, of %d, and the timer is %v; want 0 of 2 and none", q.taken, q.limit, q.stuck)
		}
	})
}

// TestTurnsThatHang: what doesn't get on holds up nobody for long, and afterwards a few go on at a time, as before.
func TestTurnsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{turns: &turns{few: 2, limit: 2}}
		q.join(t, 100)
		for _, want := range []int{2, 4, 8, 16, 32, 64, 100} {
			q.want(t, want)
			time.Sleep(turnPatience)
		}
		// All hang. A new one waits once.
		q.join(t, 3)
		q.want(t, 100)
		time.Sleep(turnPatience)
		q.want(t, 102)
		time.Sleep(turnPatience)
		q.want(t, 103)
		for range 103 {
			q.give()
		}
		q.join(t, 3)
		q.want(t, 105)
		q.give()
		q.want(t, 106)
	})
}

// TestTurnsGivenUp: one that waits no longer takes no turn from others, not even one that it is given at that moment.
func TestTurnsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{turns: &turns{few: 1, limit: 1}}
		q.join(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { err = q.take(ctx) }()
		synctest.Wait()
		q.join(t, 1)
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the one that gave up got %v; want %v", err, context.Canceled)
		}
		q.give()
		q.want(t, 2)
		q.give()
		if q.taken != 0 {
			t.Errorf("%d turns are taken; want none", q.taken)
		}
	})
}

// TestTurnsAreFair: who comes first has the first turn.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &turns{few: 1, limit: 1}
		if err := q.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []int
		for n := range 5 {
			go func() {
				if err := q.take(t.Context()); err == nil {
					order = append(order, n)
					q.give()
				}
			}()
			synctest.Wait()
		}
		q.give()
		synctest.Wait()
		for n, got := range order {
			if got != n {
				t.Fatalf("the turns went to %v; want them in the order in which they were asked for", order)
			}
		}
		if len(order) != 5 {
			t.Fatalf("%d turns were given; want 5", len(order))
		}
	})
}
