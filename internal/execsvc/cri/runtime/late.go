package runtime

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// firstPause is the pause before a status is requested again because it may be an old one. Each further pause is
	// twice the last one, up to longestPause.
	firstPause   = 25 * time.Millisecond
	longestPause = 200 * time.Millisecond
	// oomPauses is how long a reading waits for the reason of a container that was killed.
	oomPauses = 375 * time.Millisecond
	// oomLag is how long after a container's end a runtime may learn the reason. Until then its status isn't cached.
	oomLag = 2 * time.Second
	// stopLag is how long after its answer to StopContainer a runtime may report that the container runs. After that the
	// report counts.
	stopLag = 10 * time.Second
)

const (
	exitKilled   = 137
	reasonFailed = "Error"
)

// lastStatus requests a container's status, and again after pauses while the runtime may not know the container's end.
func (r *Runtime) lastStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	resp, err := r.cfg.Runtime.ContainerStatus(ctx, id, verbose)
	var waited time.Duration
	for pause := firstPause; err == nil && waited < r.lag(resp.GetStatus()); pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
			waited += pause
			resp, err = r.cfg.Runtime.ContainerStatus(ctx, id, verbose)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err == nil && waited > 0 && resp.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		r.log.Warn("the container runtime has stopped a container, and goes on reporting that it runs", "container", id, "waited", waited)
	}
	return resp, err
}

// lag returns how long to wait, in all, for a newer status than this one. Zero: it is the last one.
func (r *Runtime) lag(s *runtimeapi.ContainerStatus) time.Duration {
	switch {
	case r.mayBeOOM(s):
		return oomPauses
	case r.mayHaveEnded(s):
		return stopLag
	}
	return 0
}

// mayHaveEnded reports whether the runtime says that the container runs, but has just said that it has stopped it.
func (r *Runtime) mayHaveEnded(s *runtimeapi.ContainerStatus) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING && r.justStopped(s.GetId())
}

// justStopped reports whether the runtime has just said that it has stopped the container. containerd may say so before
// it records the end: while it deletes the container's task, it takes the missing task for the end. The caller holds mu.
func (r *Runtime) justStopped(id string) bool {
	at, ok := r.confirmed[id]
	return ok && r.cfg.Clock.Since(at) < stopLag
}

// confirm records that the runtime has answered that it has stopped the container.
func (r *Runtime) confirm(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed[id] = r.cfg.Clock.Now()
}

// mayBeOOM reports whether the container was just killed and the runtime may not have the reason yet. A runtime may
// learn only after a container's end that the kernel killed it for its memory; until then the reason is a plain error.
func (r *Runtime) mayBeOOM(s *runtimeapi.ContainerStatus) bool {
	if s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || s.GetExitCode() != exitKilled || s.GetReason() != reasonFailed {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock.Now()
	return !r.stopped[s.GetId()] && now.Sub(r.ages.Of(s.GetId(), now, timeOf(s.GetFinishedAt()))) < oomLag
}
