package podexecapi

import (
	"context"
	"errors"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/machine/share"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// The limits of concurrent calls, of one caller and in all. Each call has a connection to the runtime's streaming
// server, which buffers up to 2 MiB for a caller that doesn't read.
const (
	maxExecs, maxExecsPerCaller             = 256, 64
	maxAttached, maxAttachedPerCaller       = 256, 64
	maxConnections, maxConnectionsPerCaller = 512, 128
	maxForwards, maxForwardsPerCaller       = 256, 64 // without a connection
	maxCopies, maxCopiesPerCaller           = 64, 16
)

// slots limits the numbers of concurrent calls. The callers at different addresses with one identity count as one.
type slots struct{ execs, attached, connections, forwards, copies *share.Pool }

func newSlots() slots {
	return slots{
		execs: share.New(maxExecs), attached: share.New(maxAttached), connections: share.New(maxConnections), forwards: share.New(maxForwards),
		copies: share.New(maxCopies),
	}
}

// exec takes a place for an Exec. leave releases it.
func (s slots) exec(ctx context.Context, pod podview.Pod) (leave func(), err error) {
	return take(ctx, s.execs, "commands running", pod, maxExecs, maxExecsPerCaller)
}

// attach takes a place for an Attach. leave releases it.
func (s slots) attach(ctx context.Context, pod podview.Pod) (leave func(), err error) {
	return take(ctx, s.attached, "clients attached", pod, maxAttached, maxAttachedPerCaller)
}

// connect takes a place for a PortForward, with a connection or without one.
func (s slots) connect(ctx context.Context, pod podview.Pod, without bool) (leave func(), err error) {
	if without {
		return take(ctx, s.forwards, "forwarded ports", pod, maxForwards, maxForwardsPerCaller)
	}
	return take(ctx, s.connections, "connections to ports", pod, maxConnections, maxConnectionsPerCaller)
}

// copy takes a place for a Copy.
func (s slots) copy(ctx context.Context, pod podview.Pod) (leave func(), err error) {
	return take(ctx, s.copies, "copies under way", pod, maxCopies, maxCopiesPerCaller)
}

func take(ctx context.Context, pool *share.Pool, what string, pod podview.Pod, all, perCaller int) (leave func(), err error) {
	caller, _ := access.FromContext(ctx)
	leave, err = pool.Take(share.Holder{Name: caller.Identity, Most: perCaller, Fixed: true})
	if err == nil {
		return leave, nil
	}
	if _, own := errors.AsType[*share.Error](err); own {
		return nil, resourceExhausted("pod %s: %s has %d %s, and can have no more at a time", name(pod), caller.Identity, perCaller, what)
	}
	return nil, resourceExhausted("pod %s: this node has %d %s, and can have no more at a time", name(pod), all, what)
}

// name is a pod's name in errors.
func name(p podview.Pod) string { return p.Namespace + "/" + p.Name }
