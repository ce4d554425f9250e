package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// save is the kind of an operation that only writes the record, after an earlier write failed.
const save kind = "save"

// entry is one driver's volume. All fields are guarded by Storage.mu, which isn't held during I/O.
type entry struct {
	state state
	// active reports whether the entry's goroutine runs.
	active bool
	// stored reports whether the record on disk has the state. onDisk reports whether there may be a file.
	stored, onDisk bool
	// publications is their number in the record on disk.
	publications int
	// current is the operation that is being made since began; nil: none. abandon ends its context; abandoned is set
	// when that has been done because no pod needs the operation any more. stoppable is set if that may be done to a publish.
	current              *operation
	began                time.Time
	abandon              context.CancelFunc
	abandoned, stoppable bool
	// renewAt are the times from which publications may be repeated, if their driver wants it. None: at once.
	renewAt map[record.Target]time.Time
	// unsized are publications whose size hasn't been compared with the claim's: no container may use them yet.
	unsized map[record.Target]bool
	// growing is the expansion that is being made.
	growing *expansion
	// failures are the operations that failed last time, seq numbers failures.
	failures map[operation]failure
	seq      int

	// woken has an element if the goroutine should decide again.
	woken chan struct{}
	// changed is closed, and replaced, when an operation has ended.
	changed chan struct{}
}

// failure is an operation's last failure.
type failure struct {
	err error
	// out is the outcome, count the number of failures one after the other, seq the entry's number of the last one.
	out        Outcome
	count, seq int
	// until is when the operation may be repeated.
	until time.Time
	// told is set when the failure of a repeated publication was returned to the pod.
	told bool
}

func newEntry(s state) *entry {
	return &entry{
		state: s, stored: true, failures: map[operation]failure{}, renewAt: map[record.Target]time.Time{},
		unsized: map[record.Target]bool{},
		woken:   make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// The pauses after failures: upstream's, with jitter.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 2*time.Minute + 2*time.Second
)

// backoff returns the pause after that many failures: at least 500 ms, twice as long each time, plus up to half.
func backoff(count int) time.Duration {
	pause := maxPause
	if shift := count - 1; shift < 8 {
		pause = min(firstPause<<shift, maxPause)
	}
	return pause + rand.N(pause/2) //nolint:gosec // It spreads load; it is no secret.
}

// failed records a failure.
func (e *entry) failed(op operation, out Outcome, err error, now time.Time) {
	e.seq++
	count := e.failures[op].count + 1
	e.failures[op] = failure{err: err, out: out, count: count, seq: e.seq, until: now.Add(backoff(count))}
}

// retryPublications has publications that failed tried now, as the volume has been staged again.
func (e *entry) retryPublications() {
	for op, f := range e.failures {
		if op.kind == publish {
			f.until = time.Time{}
			e.failures[op] = f
		}
	}
}

// failedSince returns the first failure after since that keeps the target from being set up or torn down.
func (e *entry) failedSince(t record.Target, since int) (operation, failure, bool) {
	var found operation
	var first failure
	// While a call has no answer, there is no other for any target.
	blocking, blocked := pending(&e.state)
	for op, f := range e.failures {
		concerns := op.concerns(t) || blocked && op == blocking
		if f.seq > since && concerns && op.kind != save && (first.seq == 0 || f.seq < first.seq) {
			found, first = op, f
		}
	}
	return found, first, first.seq > 0
}

// next returns the operation that should be made now, or how long to wait for one. ok is false if there is nothing to
// do until the entry is woken.
func (e *entry) next(now time.Time) (op operation, pause time.Duration, ok bool) {
	ops := candidates(&e.state)
	if !e.stored {
		ops = append(ops, operation{kind: save})
	}
	for i, op := range ops {
		left := e.failures[op].until.Sub(now)
		if left <= 0 {
			return op, 0, true
		}
		if i == 0 || left < pause {
			pause = left
		}
	}
	return operation{}, pause, len(ops) > 0
}

// reconsider is called when what pods want has changed: it abandons an operation that has become useless.
func (e *entry) reconsider() {
	if e.current != nil && e.isUseless(*e.current) {
		e.abandoned = true
		e.abandon()
	}
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

// isUseless reports whether no pod needs the current operation any more, and it may be abandoned: it only waits, or it is a publish
// that ends soon, and is undone then unless its outcome is certain.
func (e *entry) isUseless(op operation) bool {
	if op.kind == publish {
		return e.stoppable && !e.state.kept(op.target)
	}
	return op.waits() && !slices.Contains(candidates(&e.state), op)
}

// describe says what the entry does, for messages.
func (e *entry) describe(now time.Time) string {
	if e.current == nil {
		return "no operation runs now"
	}
	return fmt.Sprintf("%s of volume %s has been running for %v", e.current.kind, e.state.Handle, now.Sub(e.began).Round(time.Second))
}

// notify wakes all that wait for the entry.
func (e *entry) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}
