package podexecd

import (
	"context"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/loop/shutdown"
	"github.com/podstream/podstream/internal/execsvc/machine/logind"
)

// newShutdown returns what ends the pods before the machine goes down.
func newShutdown(n *node) *shutdown.Manager {
	return shutdown.New(shutdown.Config{
		Periods: shutdownPeriods(&n.opts.settings.Shutdown), StateFile: filepath.Join(n.opts.RootDir, shutdown.StateFile),
		Dial: func(ctx context.Context) (shutdown.Logind, error) { return logind.Dial(ctx, logind.Config{}) },
		Changed: func() {
			n.agent.PressureChanged()
			n.wakeNode()
		},
		Reported: func() bool { return n.cluster == nil || n.cluster.reported() },
		Event:    n.recordNodeEvent, Metrics: n.registry, Logger: n.log,
	})
}

// shutdownPeriods returns the configured periods.
func shutdownPeriods(s *execconfig.Shutdown) []shutdown.Period {
	if len(s.ShutdownGracePeriodByPodPriority) == 0 {
		return shutdown.Periods(s.ShutdownGracePeriod, s.ShutdownGracePeriodCriticalPods)
	}
	var out []shutdown.Period
	for _, p := range s.ShutdownGracePeriodByPodPriority {
		out = append(out, shutdown.Period{Priority: p.Priority, Time: time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	return out
}

// refusal returns why no new pod is admitted: the machine shuts down, or else why pressure refuses the pod.
func (n *node) refusal(pressure func(*v1.Pod) (admit.Rejection, bool)) func(*v1.Pod) (admit.Rejection, bool) {
	return func(pod *v1.Pod) (admit.Rejection, bool) {
		if why, refused := n.shutdown.Admit(pod); refused {
			return why, true
		}
		return pressure(pod)
	}
}

// reported reports whether the API server has that this node isn't ready, and the statuses of its pods. It returns true
// for a server that doesn't answer.
func (c *cluster) reported() bool {
	if c.node.Failing() {
		return true
	}
	object := c.node.Node()
	return !c.statuses.Pending() && (object == nil || nodestatus.Condition(&object.Status, v1.NodeReady) == v1.ConditionFalse)
}
