package execsvc

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// needsNetwork tells whether the node's network decides on whether the pod can start.
func needsNetwork(pod *v1.Pod, has *observed.Pod) bool {
	return !pod.Spec.HostNetwork && has.ReadySandbox() == nil
}

// checkNetwork fails the pod's sync if the node's network isn't ready. It is asked for when a sandbox couldn't be made, and then before
// each one until it is ready: as long as it is, no start waits for the answer.
func (a *Agent) checkNetwork(ctx context.Context, pod *v1.Pod) error {
	err := a.cfg.Network(ctx)
	a.networkDown.Store(err != nil)
	if err == nil {
		return nil
	}
	a.cfg.Events.Record(pod, "", events.Warning, events.NetworkNotReady, "network is not ready: "+err.Error())
	return fmt.Errorf("%w: %w", worker.ErrNetworkNotReady, err)
}
