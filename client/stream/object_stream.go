package stream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ObjectConfig configures OpenObjects.
type ObjectConfig struct {
	// API is the service. It is required.
	API podconfigv1.PodConfigServiceClient
	// Request selects the objects and the start position. Nil means all objects, from the current state on.
	Request *podconfigv1.WatchObjectsRequest
	// Silence, Patience and Pace are as in Config. The stream of pods may have the same Pace.
	Silence, Patience time.Duration
	Pace              *Pace
	// MaxRevisionBytes bounds the messages of one revision, as in Config. Each object counts as 256 bytes more.
	MaxRevisionBytes int
}

// ObjectStream is one subscription to the ConfigMaps and Secrets that pods refer to. It is not safe for concurrent
// use.
type ObjectStream struct {
	messages *subscription[podconfigv1.WatchObjectsResponse]
	pending  ObjectRevision
	unit     unit
}

// OpenObjects subscribes, as Open does.
func OpenObjects(ctx context.Context, cfg ObjectConfig) (*ObjectStream, error) {
	if cfg.Request == nil {
		cfg.Request = &podconfigv1.WatchObjectsRequest{}
	}
	call := func(ctx context.Context) (grpc.ServerStreamingClient[podconfigv1.WatchObjectsResponse], error) {
		return cfg.API.WatchObjects(ctx, cfg.Request)
	}
	messages, err := subscribe(ctx, cfg.Silence, call)
	if err != nil {
		return nil, err
	}
	return &ObjectStream{messages: messages, unit: unit{limit: cfg.MaxRevisionBytes, patience: cfg.Patience, pace: cfg.Pace}}, nil
}

// Close ends the subscription.
func (s *ObjectStream) Close() { s.messages.close() }

// Next returns the next whole revision, end of the initial state, or heartbeat. Its errors are those of Stream.Next.
func (s *ObjectStream) Next() (*ObjectRevision, error) {
	for {
		msg, err := s.messages.receive()
		if err != nil {
			return nil, err
		}
		switch event := msg.GetEvent().(type) {
		case *podconfigv1.WatchObjectsResponse_Update:
			if op := event.Update.GetOp(); !knownObjectOp(op) {
				return nil, fmt.Errorf("%w: %d", ErrUnknownOp, op)
			}
			s.pending.add(event.Update)
		case *podconfigv1.WatchObjectsResponse_Synced:
			s.pending.Synced = event.Synced
		case *podconfigv1.WatchObjectsResponse_Heartbeat:
			if msg.GetCursor() == nil && len(s.pending.Updates) > 0 {
				// Within a revision it only shows that the stream is alive.
				if err := s.unit.heartbeat(s.messages.ctx); err != nil {
					return nil, err
				}
				continue
			}
			s.pending.Heartbeat = event.Heartbeat
		}
		if err := s.unit.add(proto.Size(msg), len(msg.GetUpdate().GetObjects())); err != nil {
			return nil, err
		}
		whole := msg.GetCursor() != nil || s.pending.Synced != nil || s.pending.Heartbeat != nil
		if msg.GetContinued() || !whole {
			continue
		}
		revision := s.pending
		revision.Cursor = msg.GetCursor()
		s.pending = ObjectRevision{}
		if err := s.unit.end(s.messages.ctx, revision.TellsSources() || revision.hasSet()); err != nil {
			return nil, err
		}
		return &revision, nil
	}
}

func knownObjectOp(op podconfigv1.ObjectOperation) bool {
	_, ok := podconfigv1.ObjectOperation_name[int32(op)]
	return ok && op != podconfigv1.ObjectOperation_OBJECT_OPERATION_UNSPECIFIED
}

// ObjectRevision is a revision of the objects, as Revision is one of pods.
type ObjectRevision struct {
	// Updates are applied in this order, all or none. Each op is whole, however many messages it took.
	Updates []*podconfigv1.ObjectUpdate
	// Synced is set at the end of the initial state. It may come with Updates, which complete that state.
	Synced *podconfigv1.Synced
	// Heartbeat is set if the message is a heartbeat.
	Heartbeat *podconfigv1.Heartbeat
	// Cursor is the consumer's position once it has applied the revision. It is nil only on a heartbeat that doesn't
	// move the consumer.
	Cursor *podconfigv1.Cursor
}

// TellsSources reports whether the revision lists all configured sources. The list may be empty if the consumer's
// view has none.
func (r *ObjectRevision) TellsSources() bool { return r.Synced != nil || r.Heartbeat != nil }

// hasSet reports whether the revision has a SET.
func (r *ObjectRevision) hasSet() bool {
	return slices.ContainsFunc(r.Updates, func(u *podconfigv1.ObjectUpdate) bool { return u.GetOp() == objectSet })
}

// Sources returns the readiness of all configured sources, in order of priority. Nil means that the revision doesn't
// list them.
func (r *ObjectRevision) Sources() []*podconfigv1.SourceReadiness {
	if r.Synced != nil {
		return r.Synced.GetSources()
	}
	return r.Heartbeat.GetSources()
}

// Path returns the relays that the objects pass, as in Synced.path and Heartbeat.path. Nil means that the revision
// doesn't list them.
func (r *ObjectRevision) Path() []*podconfigv1.RelayHop {
	if r.Synced != nil {
		return r.Synced.GetPath()
	}
	return r.Heartbeat.GetPath()
}

// add appends an op, or joins it to the one before if both have the same operation.
func (r *ObjectRevision) add(u *podconfigv1.ObjectUpdate) {
	if n := len(r.Updates); n > 0 && r.Updates[n-1].GetOp() == u.GetOp() {
		r.Updates[n-1].Objects = append(r.Updates[n-1].Objects, u.GetObjects()...)
		return
	}
	r.Updates = append(r.Updates, u)
}
