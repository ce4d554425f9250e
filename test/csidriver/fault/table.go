package fault

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Table has the faults of a driver. Its zero value is ready.
type Table struct {
	mu     sync.Mutex
	faults []*entry
	last   int
	// reached is closed and replaced when a call has met a fault.
	reached chan struct{}
	// met is the number of calls that each fault has acted on, also after its removal.
	met map[int]int
}

// entry is a fault of a Table.
type entry struct {
	Fault
	id       int
	left     int // of Times
	released chan struct{}
}

// Met is a fault that a call has met.
type Met struct {
	Fault
	// Released is closed when the fault is released or removed.
	Released <-chan struct{}
}

// Add adds a fault, and returns its ID. The first fault that matches a call acts.
func (t *Table) Add(_ context.Context, f Fault) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.faults = append(t.faults, &entry{Fault: f, id: t.last, left: f.Times, released: make(chan struct{})})
	return t.last, nil
}

// Remove removes a fault and releases its calls. Calls of Hang remain.
func (t *Table) Remove(_ context.Context, id int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range t.faults {
		if e.id == id {
			e.release()
			t.faults = slices.Delete(t.faults, i, i+1)
			return nil
		}
	}
	return fmt.Errorf("there is no fault %d", id)
}

// Release lets the calls act that the fault holds. Later calls don't wait for it.
func (t *Table) Release(_ context.Context, id int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.faults {
		if e.id == id {
			e.release()
			return nil
		}
	}
	return fmt.Errorf("there is no fault %d", id)
}

func (e *entry) release() {
	select {
	case <-e.released:
	default:
		close(e.released)
	}
}

// Await waits until the fault has acted on that many calls.
func (t *Table) Await(ctx context.Context, id, calls int) error {
	for {
		t.mu.Lock()
		met := t.met[id]
		if t.reached == nil {
			t.reached = make(chan struct{})
		}
		reached := t.reached
		t.mu.Unlock()
		if met >= calls {
			return nil
		}
		select {
		case <-reached:
		case <-ctx.Done():
			return fmt.Errorf("fault %d has acted on %d calls, not %d: %w", id, met, calls, context.Cause(ctx))
		}
	}
}

// Meet returns the fault of a call, or nil. It counts the call.
func (t *Table) Meet(method, volume string) *Met {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.faults {
		if !e.matches(method, volume) || e.Times > 0 && e.left == 0 {
			continue
		}
		e.left--
		if t.met == nil {
			t.met = map[int]int{}
		}
		t.met[e.id]++
		if t.reached != nil {
			close(t.reached)
			t.reached = nil
		}
		return &Met{Fault: e.Fault, Released: e.released}
	}
	return nil
}
