package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/failpoint"
)

// wake starts the entry's goroutine, or has it decide again. mu is held.
func (s *Storage) wake(e *entry) {
	if e.active {
		e.reconsider()
		return
	}
	if s.ended {
		return
	}
	e.active = true
	s.running.Add(1)
	go s.drive(s.ctx, e)
}

// Retry has calls made now that weren't made at their last attempt, for example because the driver wasn't registered. is reports whether
// the driver may be ready now. Otherwise a volume would wait for up to three minutes after its driver has registered: after each
// reboot, for example.
func (s *Storage) Retry(is func(driver string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.entries {
		for op, f := range e.failures {
			if f.out == NotSent && op.kind != save && is(key.Driver) {
				f.until = time.Time{}
				e.failures[op] = f
				s.wake(e)
			}
		}
	}
}

// drive makes the entry's operations, one after the other, until there are none. Only one goroutine does it for an
// entry.
func (s *Storage) drive(ctx context.Context, e *entry) {
	defer s.running.Done()
	for ctx.Err() == nil {
		s.mu.Lock()
		op, pause, ok := e.next(s.cfg.Clock.Now())
		if !ok {
			s.rest(e)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if pause > 0 {
			s.pause(ctx, e, pause)
			continue
		}
		s.execute(ctx, e, op)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.active = false
}

// rest ends the entry's activity, and forgets an entry of which nothing is left. mu is held.
func (s *Storage) rest(e *entry) {
	e.active = false
	e.notify()
	if e.state.blank() && len(e.state.wants) == 0 && s.entries[e.state.Key] == e {
		delete(s.entries, e.state.Key)
	}
}

// pause returns after that time, when the entry is woken, or when ctx ends.
func (s *Storage) pause(ctx context.Context, e *entry, d time.Duration) {
	timer := s.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-e.woken:
	case <-timer.C():
	}
}

// execute makes one operation: the intent is recorded, the call is made, the answer is recorded.
func (s *Storage) execute(ctx context.Context, e *entry, op operation) {
	failpoint.Reached(failpoint.BeforeVolume(string(op.kind)))
	intent, was, callCtx, ok := s.begin(ctx, e, op)
	if !ok {
		return // What pods want has changed.
	}
	if err := s.away(e, op); err != nil {
		s.finish(ctx, e, op, was, nil, err)
		s.mu.Lock()
		e.notify()
		s.mu.Unlock()
		return
	}
	var err error
	if op.kind != waitAttached {
		// A waiting operation records nothing.
		err = s.save(e, &intent)
	}
	var attachment map[string]string
	if err != nil {
		err = &Error{NotSent, fmt.Errorf("the volume's record can't be written, so nothing is done: %w", err)}
	} else if op.kind != save {
		failpoint.Reached(failpoint.VolumeRecorded(string(op.kind)))
		attachment, err = s.perform(callCtx, op, &intent)
		failpoint.Reached(failpoint.VolumeAnswered(string(op.kind)))
	}
	answer, missed := s.finish(ctx, e, op, was, attachment, err)
	if op.kind != save && op.kind != waitAttached { // The next intent has the attachment.
		if err := s.save(e, &answer); err != nil {
			s.log(&answer).Error("the record of a volume can't be written; it is tried again", "operation", op.kind, "error", err)
		}
	}
	failpoint.Reached(failpoint.AfterVolume(string(op.kind)))
	s.mu.Lock()
	e.notify()
	s.mu.Unlock()
	if (missed || err != nil && op.kind == republish) && s.cfg.Wake != nil {
		s.cfg.Wake(op.target.UID) // Its next sync goes on, or shows the failure.
	}
}

// begin marks the operation as begun. It returns the state to record, the operation's call before it, and the context
// of the call. ok is false if the operation isn't a candidate any more.
func (s *Storage) begin(ctx context.Context, e *entry, op operation) (intent state, was record.Call, callCtx context.Context, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	if again, pause, ok := e.next(now); !ok || pause > 0 || again != op {
		return state{}, record.Call{}, nil, false
	}
	was = call(&e.state, op)
	if op.kind == expand && e.state.Expand.Phase == record.None {
		e.growing = e.state.grow
	}
	begin(&e.state, op)
	e.current, e.began = &op, now
	b, is := s.cfg.Backends[e.state.Backend].(Stoppable)
	e.stoppable = is && b.StopsPublish()
	late := fmt.Errorf("there was no answer within %v: %w", s.cfg.Timeout, context.DeadlineExceeded)
	callCtx, e.abandon = context.WithTimeoutCause(ctx, s.cfg.Timeout, late)
	return e.state.clone(), was, callCtx, true
}

// finish marks the operation as ended. It returns the state to record, and whether a pod's worker goes on without what was done.
func (s *Storage) finish(ctx context.Context, e *entry, op operation, was record.Call, attachment map[string]string, err error) (answer state, missed bool) {
	out := OutcomeOf(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	finish(&e.state, op, was, out, attachment)
	e.abandon()
	abandoned := e.abandoned
	e.current, e.abandon, e.abandoned = nil, nil, false
	switch {
	case err == nil:
		missed = s.tookMissed(op)
		if f, failed := e.failures[op]; failed && f.out != NotSent {
			s.log(&e.state).Info("an operation of a volume succeeded after failures", "operation", op.kind, "failures", f.count)
		}
		delete(e.failures, op)
		if op.kind == stage {
			e.retryPublications()
		}
		if op.kind == publish || op.kind == republish {
			e.unsized[op.target] = e.unsized[op.target] || op.kind == publish && s.cfg.Sizes != nil
			e.renewAt[op.target] = s.cfg.Clock.Now().Add(renewPause())
		}
	case ctx.Err() != nil || abandoned:
	default:
		e.failed(op, out, err, s.cfg.Clock.Now())
	}
	if g := e.growing; op.kind == expand && g != nil && out != Unanswered {
		g.done <- err // It has room for one.
		e.growing = nil
	}
	s.settle(e, op.target)
	return e.state.clone(), missed
}

// settle forgets a target that is neither published nor wanted. mu is held.
func (s *Storage) settle(e *entry, t record.Target) {
	if e.state.Publication(t) != nil || e.state.kept(t) || s.targets[t] != e {
		return
	}
	delete(s.targets, t)
	delete(s.missed, t)
	delete(e.renewAt, t)
	delete(e.unsized, t)
	for name, of := range s.names {
		if of == t {
			delete(s.names, name)
		}
	}
	for op := range e.failures {
		if op.target == t {
			delete(e.failures, op)
		}
	}
}

// save makes the record on disk what the state says. Only the entry's goroutine calls it.
func (s *Storage) save(e *entry, st *state) error {
	s.mu.Lock()
	onDisk, publications := e.onDisk, e.publications
	s.mu.Unlock()
	var err error
	switch {
	case !st.blank():
		onDisk = true
		v := st.recorded(s.cfg.Agent, s.cfg.Boot)
		if len(v.Publications) > publications {
			err = s.cfg.Records.WriteGrown(&v)
		} else {
			err = s.cfg.Records.Write(&v)
		}
	case onDisk:
		err = s.cfg.Records.Remove(st.Key)
		onDisk = err != nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.onDisk, e.stored = onDisk, err == nil && st.revision == e.state.revision
	if err == nil {
		e.publications = len(st.Publications)
	}
	if err != nil {
		e.failed(operation{kind: save}, NotSent, err, s.cfg.Clock.Now())
	} else {
		delete(e.failures, operation{kind: save})
	}
	return err
}
