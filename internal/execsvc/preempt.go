package execsvc

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// preempt ends the pods that have to make room for a critical one, and says whose end it waits for.
func (a *Agent) preempt(pod *v1.Pod, v verdict) error {
	var names []string
	for _, other := range v.awaited {
		name := other.Namespace + "/" + other.Name
		names = append(names, name)
		w, working := a.workers.Get(other.UID)
		if !slices.Contains(v.Preempt, other.UID) || !working || w.State >= worker.Terminating {
			continue
		}
		const message = "Preempted in order to admit critical pod"
		a.log.Warn("ending a pod, as a critical one needs its room", "pod", name, "uid", other.UID, "critical", pod.Namespace+"/"+pod.Name)
		a.cfg.Events.Record(other, "", events.Warning, events.Preempting, message)
		a.workers.Kill(other.UID, worker.Kill{Failure: &status.Failure{Reason: events.Preempting, Message: message}})
	}
	slices.Sort(names)
	return fmt.Errorf("waiting for the end of pods that make room: %s", strings.Join(names, ", "))
}
