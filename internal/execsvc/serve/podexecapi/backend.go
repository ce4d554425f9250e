package podexecapi

import (
	"context"
	"sync/atomic"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
)

// Runtime reads containers' logs and runs commands in them: a *runtime.Runtime.
type Runtime interface {
	LogReader
	Execer
}

// Backend is the Config.Logs and Config.Exec of a Server that is served before the container runtime has answered. Both fail with
// ErrNoRuntime until Publish is called. It is safe for concurrent use.
type Backend struct{ runtime atomic.Pointer[Runtime] }

// Publish sets the runtime.
func (b *Backend) Publish(r Runtime) { b.runtime.Store(&r) }

// ReadLog implements LogReader.
func (b *Backend) ReadLog(ctx context.Context, in runtime.LogInput) error {
	if r := b.runtime.Load(); r != nil {
		return (*r).ReadLog(ctx, in)
	}
	return ErrNoRuntime
}

// Exec implements Execer.
func (b *Backend) Exec(ctx context.Context, in runtime.ExecInput) (int, error) {
	if r := b.runtime.Load(); r != nil {
		return (*r).Exec(ctx, in)
	}
	return 0, ErrNoRuntime
}
