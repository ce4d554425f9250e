package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// toBegin is how long, beyond its timeout, a runtime may take for a probe's command. A call that hangs while it starts
// the command, as with runc while the container ends, wouldn't notice that end, and so the container couldn't be
// stopped either.
const toBegin = 10 * time.Second

// toAnswer is the time-out of the request that checks whether the runtime answers at all.
const toAnswer = 2 * time.Second

// probeExec runs the command. The CRI client returns ErrCommandTimedOut both if the runtime answers that the command
// took too long and if the runtime doesn't answer before the context ends. The latter is the container's failure only
// if the runtime answers other requests: containerd waits for the end of every process that holds the command's output,
// also after it has killed the command.
func (r *Runner) probeExec(parent context.Context, t Target, action *v1.ExecAction, timeout time.Duration) (Outcome, string, error) {
	ctx, cancel := context.WithTimeout(parent, timeout+r.toBegin())
	defer cancel()
	stdout, stderr, err := r.cfg.Runtime.ExecSync(ctx, t.ContainerID, expand(action.Command, t), timeout)
	output := slices.Concat(stdout, stderr)
	output = output[:min(len(output), maxOutput)]
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return Success, string(output), nil
	case errors.As(err, &exit):
		return Failure, string(output), nil
	case errors.Is(err, cri.ErrCommandTimedOut) && (!ended(ctx) || r.answers(parent)):
		return Failure, err.Error(), nil
	case errors.Is(err, cri.ErrCommandTimedOut):
		return Failure, "", fmt.Errorf("the container runtime didn't answer within %v: %w", timeout+r.toBegin(), context.DeadlineExceeded)
	default:
		return Failure, "", err
	}
}

// ended reports whether ctx has ended, or its deadline has passed. The runtime's end of the connection has the same
// deadline, so its reset of the stream can arrive a moment before this process has ended ctx.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// answers reports whether the runtime answers requests.
func (r *Runner) answers(ctx context.Context) bool {
	if r.cfg.Answers == nil || ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, toAnswer)
	defer cancel()
	return r.cfg.Answers(ctx) == nil
}

// toBegin is at most the client's own time-out for requests, which starts later: so this context ends first if the
// runtime doesn't answer.
func (r *Runner) toBegin() time.Duration {
	if r.cfg.RequestTimeout > 0 {
		return min(r.cfg.RequestTimeout, toBegin)
	}
	return toBegin
}

// expand replaces references in a probe's command by the values in the container spec. A variable with valueFrom counts
// as empty, as in the kubelet; an unknown one stays as written.
func expand(command []string, t Target) []string {
	values := environment(t)
	expanded := make([]string, len(command))
	for i, text := range command {
		expanded[i] = criconfig.Expand(text, values)
	}
	return expanded
}

func environment(t Target) map[string]string {
	values := map[string]string{}
	if t.Pod == nil {
		return values
	}
	for _, containers := range [][]v1.Container{t.Pod.Spec.Containers, t.Pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name != t.Container {
				continue
			}
			for _, e := range containers[i].Env {
				values[e.Name] = e.Value
			}
		}
	}
	return values
}
