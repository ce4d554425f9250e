package execsvc

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// needsNetwork reports whether the pod can only start if the node's network is ready.
func needsNetwork(pod *v1.Pod, has *observed.Pod) bool {
	return !pod.Spec.HostNetwork && has.ReadySandbox() == nil
}

// checkNetwork fails the pod's sync if the node's network isn't ready. It is called when a sandbox couldn't be
// created, and then before each new one until the network is ready. So while the network is ready, no start waits for
// the check.
func (a *Agent) checkNetwork(ctx context.Context, pod *v1.Pod) error {
	err := a.cfg.Network(ctx)
	a.networkDown.Store(err != nil)
	if err == nil {
		return nil
	}
	a.cfg.Events.Record(pod, "", events.Warning, events.NetworkNotReady, "network is not ready: "+err.Error())
	return fmt.Errorf("%w: %w", worker.ErrNetworkNotReady, err)
}
