package simruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ExecSync runs the command as a script in a running container and returns its output. It returns DeadlineExceeded
// after the timeout. A timeout of zero means no limit.
func (s *runtimeService) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	p, exited, err := s.startExec(req)
	if err != nil {
		return nil, err
	}
	timeout := time.Duration(req.GetTimeout()) * time.Second
	left := timeout
	for {
		takes, forever, timesOut := p.lifetime, p.runsOn, false
		if timeout > 0 && (forever || takes > left) {
			takes, forever, timesOut = left, false, true
		}
		switch err := s.waitProcess(ctx, exited, takes, forever); {
		case errors.Is(err, ErrNotRunning): // all processes of a container end with it
			return execResult(p, exitKilled), nil
		case err != nil:
			return nil, ended(err)
		case timesOut:
			return nil, status.Errorf(codes.DeadlineExceeded, "failed to exec in container: timeout %v exceeded: %v", timeout, context.DeadlineExceeded)
		case p.next == nil:
			return execResult(p, p.exitCode), nil
		}
		left -= takes
		p = s.nextExec(p)
	}
}

// waitProcess waits for the end of a process. It returns nil when the process ends, ErrNotRunning when the container ends, or
// ctx's error.
func (s *Server) waitProcess(ctx context.Context, exited <-chan struct{}, takes time.Duration, forever bool) error {
	var over <-chan time.Time // never
	switch {
	case forever:
	case takes == 0:
		return nil
	default:
		timer := s.clock.NewTimer(takes)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-exited:
		return ErrNotRunning
	case <-over:
		return nil
	}
}

// nextExec returns the process that follows p in an exec. Its output includes p's.
func (s *Server) nextExec(p process) process {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := p.next()
	q.stdout, q.stderr = slices.Concat(p.stdout, q.stdout), slices.Concat(p.stderr, q.stderr)
	return q
}

// startExec returns the command's process, and a channel that is closed when its container ends.
func (s *Server) startExec(req *runtimeapi.ExecSyncRequest) (process, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.containers[req.GetContainerId()]
	if !ok {
		return process{}, nil, notFound("failed to exec in container: failed to find container %q in store", req.GetContainerId())
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return process{}, nil, fmt.Errorf("failed to exec in container: container is in %s state", c.state)
	}
	if cmd := req.GetCmd(); len(cmd) > 0 && s.cfg.Programs[cmd[0]] != nil {
		return process{runWith: s.cfg.Programs[cmd[0]].with(cmd[1:])}, c.exited, nil
	}
	p, err := play(req.GetCmd(), c.environment())
	if err != nil {
		return process{}, nil, fmt.Errorf("failed to exec in container: failed to start exec %q: OCI runtime exec failed: "+
			"exec failed: unable to start container process: %w", newID(), err)
	}
	return p, c.exited, nil
}

func execResult(p process, code int32) *runtimeapi.ExecSyncResponse {
	return &runtimeapi.ExecSyncResponse{Stdout: output(p.stdout), Stderr: output(p.stderr), ExitCode: code}
}

func output(lines []string) []byte {
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}
