package simruntime

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// The exit code and reason of a container that failed to start.
const (
	startErrorReason = "StartError"
	startErrorCode   = 128
)

// StartContainer starts a created container. If that fails, the container has ended, with reason StartError.
func (s *runtimeService) StartContainer(_ context.Context, req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil, fmt.Errorf("failed to set starting state for container %q: container is in %s state", c.id, c.state)
	}
	if err := s.start(c); err != nil {
		// There is no event, because the container never started.
		c.release()
		c.state, c.finishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, s.clock.Now().UnixNano()
		c.exitCode, c.reason, c.message = startErrorCode, startErrorReason, err.Error()
		return nil, err
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// start runs the container's script. The caller holds the lock.
func (s *Server) start(c *container) error {
	if c.sandbox.state != runtimeapi.PodSandboxState_SANDBOX_READY {
		return fmt.Errorf("sandbox container %q is not running", c.sandbox.id)
	}
	if err := c.log.open(c.logPath); err != nil {
		return fmt.Errorf("failed to create containerd task: failed to create container loggers: failed to create and open log file: %w", err)
	}
	p, err := play(argv(c.config), c.environment())
	if err != nil {
		return fmt.Errorf("failed to create containerd task: failed to create shim task: OCI runtime create failed: "+
			"runc create failed: unable to start container process: %w", err)
	}
	c.state, c.startedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, s.clock.Now().UnixNano()
	s.emit(c.id, c.sandbox, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	s.setProcess(c, p)
	return nil
}

// setProcess makes p the container's process, either the first one or the next. The caller holds the lock.
func (s *Server) setProcess(c *container, p process) {
	c.process = p
	if p.runWith != nil && (c.config.GetStdin() || c.config.GetTty()) {
		return // It starts when a client attaches.
	}
	s.print(c, runtimeapi.Stdout, p.stdout...)
	s.print(c, runtimeapi.Stderr, p.stderr...)
	switch {
	case p.oomKilled:
		s.exit(c, p.exitCode, "OOMKilled")
	case p.runsOn:
	case p.lifetime == 0:
		s.exit(c, p.exitCode, "")
	default:
		s.endAfter(c, p, s.clock.NewTimer(p.lifetime))
	}
}

// endAfter ends the container's process p when the timer fires. The caller holds the lock.
func (s *Server) endAfter(c *container, p process, timer clock.Timer) {
	s.lifetimes.Go(func() {
		defer timer.Stop()
		select {
		case <-c.exited:
			return
		case <-timer.C():
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-c.exited: // at the same moment
			return
		default:
		}
		if p.next != nil {
			s.setProcess(c, p.next())
		} else {
			s.exit(c, p.exitCode, "")
		}
	})
}

// print writes to the container's log. The caller holds the lock.
func (s *Server) print(c *container, stream runtimeapi.LogStreamType, lines ...string) {
	if err := c.log.write(s.clock.Now(), stream, lines...); err != nil {
		s.log.Error("output of a container is lost", "container", c.id, "path", c.logPath, "error", err)
	}
}

// exit ends a running container, and ignores a container that isn't running. An empty reason is derived from the code.
// The caller holds the lock.
func (s *Server) exit(c *container, code int32, reason string) {
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING || !c.release() {
		return
	}
	c.state, c.finishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, s.clock.Now().UnixNano()
	c.exitCode, c.reason = code, reason
	s.emit(c.id, c.sandbox, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// release wakes all calls that wait for the container's end, and closes its log. It reports whether this was the first
// call; further calls do nothing.
func (c *container) release() bool {
	select {
	case <-c.exited:
		return false
	default:
		close(c.exited)
		c.log.close()
		return true
	}
}

// kill sends SIGKILL. The caller holds the lock.
func (s *Server) kill(c *container) {
	if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
		s.exit(c, exitKilled, "")
	}
}

// terminate sends SIGTERM to a running container. The caller holds the lock.
func (s *Server) terminate(c *container) {
	switch {
	case c.process.ignoresTerm:
		s.print(c, runtimeapi.Stdout, "ignored a signal")
	case c.process.onTerm != nil:
		s.setProcess(c, c.process.onTerm())
	default:
		s.exit(c, c.process.termCode, "")
	}
}

// StopContainer sends SIGTERM, waits for the timeout, and kills. Without a timeout it kills at once. A container that
// doesn't run, or doesn't exist, counts as stopped. If the call is canceled first, the container has received SIGTERM
// and isn't killed.
func (s *runtimeService) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	s.mu.Lock()
	c, ok := s.containers[req.GetContainerId()]
	if !ok || c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		s.mu.Unlock()
		return &runtimeapi.StopContainerResponse{}, nil
	}
	timeout := time.Duration(req.GetTimeout()) * time.Second
	if timeout <= 0 {
		s.kill(c)
		s.mu.Unlock()
		return &runtimeapi.StopContainerResponse{}, nil
	}
	timer := s.clock.NewTimer(timeout)
	defer timer.Stop()
	if !c.termSent {
		c.termSent = true
		s.terminate(c)
	}
	s.mu.Unlock()

	select {
	case <-c.exited:
		return &runtimeapi.StopContainerResponse{}, nil
	case <-ctx.Done():
		return nil, ended(ctx.Err())
	case <-timer.C():
	}
	if ctx.Err() != nil { // the call was canceled at the same time, so no kill
		return nil, ended(ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill(c)
	return &runtimeapi.StopContainerResponse{}, nil
}
