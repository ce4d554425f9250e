package stream

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ObjectConfig says what objects to subscribe to, and where.
type ObjectConfig struct {
	// API is the service. It is required.
	API podconfigv1.PodConfigServiceClient
	// Request is what to ask for. Nil: everything, from the current state on.
	Request *podconfigv1.WatchObjectsRequest
	// Silence is as in Config.
	Silence time.Duration
}

// ObjectStream is one subscription to the ConfigMaps and Secrets that pods refer to. It is not safe for concurrent use.
type ObjectStream struct {
	messages *subscription[podconfigv1.WatchObjectsResponse]
	pending  ObjectRevision
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
	return &ObjectStream{messages: messages}, nil
}

// Close ends the subscription.
func (s *ObjectStream) Close() { s.messages.close() }

// Next waits for the next whole revision, the end of the initial state, or a heartbeat, and ends as Stream.Next does.
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
				// Amid a revision it is a sign of life.
				continue
			}
			s.pending.Heartbeat = event.Heartbeat
		}
		whole := msg.GetCursor() != nil || s.pending.Synced != nil || s.pending.Heartbeat != nil
		if msg.GetContinued() || !whole {
			continue
		}
		revision := s.pending
		revision.Cursor = msg.GetCursor()
		s.pending = ObjectRevision{}
		return &revision, nil
	}
}

func knownObjectOp(op podconfigv1.ObjectOperation) bool {
	_, ok := podconfigv1.ObjectOperation_name[int32(op)]
	return ok && op != podconfigv1.ObjectOperation_OBJECT_OPERATION_UNSPECIFIED
}

// ObjectRevision is what came up to a cursor, as Revision is of pods.
type ObjectRevision struct {
	// Updates are the ops in the order in which they are to be applied, all or none; each is whole, however many messages it took.
	Updates []*podconfigv1.ObjectUpdate
	// Synced is set at the end of the initial state. It may have Updates: what begins a stream is completed by it.
	Synced *podconfigv1.Synced
	// Heartbeat is set if the readiness of the sources is told, or nothing else was to be said.
	Heartbeat *podconfigv1.Heartbeat
	// Cursor is where the consumer is once it has applied all of this. Nil only on a heartbeat that doesn't move it.
	Cursor *podconfigv1.Cursor
}

// TellsSources tells whether Sources are all that are configured. None may be, for all that the consumer may see.
func (r *ObjectRevision) TellsSources() bool { return r.Synced != nil || r.Heartbeat != nil }

// Sources is the readiness of all configured sources, in order of priority. Nil if the revision doesn't tell it.
func (r *ObjectRevision) Sources() []*podconfigv1.SourceReadiness {
	if r.Synced != nil {
		return r.Synced.GetSources()
	}
	return r.Heartbeat.GetSources()
}

// Path is the way that the objects come, as Synced.path and Heartbeat.path have it. Nil if the revision doesn't tell it.
func (r *ObjectRevision) Path() []*podconfigv1.RelayHop {
	if r.Synced != nil {
		return r.Synced.GetPath()
	}
	return r.Heartbeat.GetPath()
}

// add appends an op, or joins it to the one before if that is the same.
func (r *ObjectRevision) add(u *podconfigv1.ObjectUpdate) {
	if n := len(r.Updates); n > 0 && r.Updates[n-1].GetOp() == u.GetOp() {
		r.Updates[n-1].Objects = append(r.Updates[n-1].Objects, u.GetObjects()...)
		return
	}
	r.Updates = append(r.Updates, u)
}
