package storage

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// perform makes the operation's call. st is the recorded intent.
func (s *Storage) perform(ctx context.Context, op operation, st *state) (attachment map[string]string, err error) {
	switch op.kind {
	case markInUse, waitAttached, dropInUse:
		return s.attachment(ctx, op, st)
	}
	b := s.cfg.Backends[st.Backend]
	if b == nil {
		return nil, &Error{NotSent, fmt.Errorf("this podexecd has no backend %q for driver %q", st.Backend, st.Driver)}
	}
	switch op.kind {
	case stage:
		return nil, b.Stage(ctx, staging(st))
	case unstage:
		return nil, b.Unstage(ctx, staging(st))
	}
	p := publishing(st, st.Publication(op.target))
	switch op.kind {
	case publish:
		return nil, b.Publish(ctx, p)
	case republish:
		p.Again = true
		return nil, b.Publish(ctx, p)
	case unpublish:
		return nil, b.Unpublish(ctx, p)
	default:
		return nil, b.Expand(ctx, p, st.Expand.Args)
	}
}

// away returns the operation's last error if that was, and is, that its driver isn't registered. Then nothing is recorded: a driver that
// comes and goes would have the records of all volumes that wait for it written each time.
func (s *Storage) away(e *entry, op operation) error {
	s.mu.Lock()
	last, backend, driver := e.failures[op], e.state.Backend, e.state.Driver
	s.mu.Unlock()
	b, ok := s.cfg.Backends[backend].(Registers)
	if !ok || last.out != NotSent || op.kind == save || !b.IsAway(driver, last.err) {
		return nil
	}
	return last.err
}

// attachment makes the operations at the API server.
func (s *Storage) attachment(ctx context.Context, op operation, st *state) (map[string]string, error) {
	a := s.cfg.Attachments
	if a != nil && op.kind != waitAttached {
		// Two volumes may have the name: one doesn't drop what the other has just marked.
		release, err := s.holdName(ctx, st.UniqueName)
		if err != nil {
			return nil, &Error{NotSent, err}
		}
		defer release()
	}
	switch {
	case a == nil && op.kind == dropInUse:
		return nil, nil // The node isn't a cluster's any more.
	case op.kind == dropInUse && s.sharesName(st):
		return nil, nil // The other volume drops it.
	case a == nil:
		return nil, &Error{NotSent, ErrNoAttachments}
	case op.kind == dropInUse:
		return nil, a.DropInUse(ctx, st.UniqueName)
	case op.kind == markInUse:
		return nil, a.MarkInUse(ctx, st.UniqueName)
	default:
		return a.WaitAttached(ctx, *st.leader())
	}
}

// holdName keeps the other volumes from changing the name in volumesInUse until release is called.
func (s *Storage) holdName(ctx context.Context, name string) (release func(), err error) {
	for {
		s.mu.Lock()
		held := s.changing[name]
		if held == nil {
			held = make(chan struct{})
			s.changing[name] = held
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.changing, name)
				close(held)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, fmt.Errorf("another volume's change of %s in volumesInUse: %w", name, context.Cause(ctx))
		}
	}
}

// sharesName reports whether another volume has the name in volumesInUse: another use of the same disk, which waits for the end of this one.
func (s *Storage) sharesName(st *state) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.entries {
		if k != st.Key && e.state.UniqueName == st.UniqueName && (e.state.Use == record.AddingUse || e.state.Use == record.InUse) {
			return true
		}
	}
	return false
}

func staging(st *state) Staging {
	return Staging{Key: st.Key, Context: st.Context, Args: st.Stage.Args}
}

func publishing(st *state, p *record.Publication) Publishing {
	return Publishing{
		Staging: staging(st), Staged: st.Stages, KeepsGroup: p.KeepsGroup, UID: p.UID, Plugin: p.Plugin, Name: p.Name, ReadOnly: p.ReadOnly, Dir: p.Dir, Device: p.Device,
		Args: p.Args,
	}
}

func (s *Storage) log(st *state) *slog.Logger {
	return s.cfg.Log.With("driver", st.Driver, "volume", st.Handle)
}
