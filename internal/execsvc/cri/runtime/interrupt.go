package runtime

import (
	"context"
	"time"
)

// sandboxPatience is how long the creation of a sandbox continues after the pod's removal or this agent's stop. Most take
// less than a second, but a network plug-in may hang.
const sandboxPatience = 5 * time.Second

// finishWithin returns a context that is canceled this long after ctx ends. It is for a call that leaves something behind
// if it is interrupted: containerd 2 may leave the process, the mount and the shim of a sandbox. The caller cancels it.
func finishWithin(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-patient.Done():
		}
	})
	return patient, func() {
		stop()
		cancel()
	}
}
