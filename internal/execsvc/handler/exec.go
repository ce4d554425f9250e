package handler

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// toBegin is how long, beyond its timeout, a runtime may take over a probe's command. One that hangs in beginning it, as runc may while the
// container ends, wouldn't notice that end, and so couldn't stop the container either.
const toBegin = 10 * time.Second

func (r *Runner) probeExec(ctx context.Context, t Target, action *v1.ExecAction, timeout time.Duration) (Outcome, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+toBegin)
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
	case errors.Is(err, cri.ErrCommandTimedOut):
		return Failure, err.Error(), nil
	default:
		return Failure, "", err
	}
}

// expand replaces references in a probe's command by the values that the pod writes down for the container. A variable whose
// value comes from elsewhere counts as empty, as in the kubelet; one that the container hasn't got stays as it is written.
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
