package podexecapi

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// portOf returns the number of the port that a caller names.
func portOf(pod podview.Pod, start *podexecv1.PortForwardStart) (int32, error) {
	const most = 1<<16 - 1
	switch port := start.GetPort().(type) {
	case *podexecv1.PortForwardStart_Number:
		if port.Number < 1 || port.Number > most {
			return 0, invalidArgument("start.number: %d isn't from 1 to %d", port.Number, most)
		}
		return port.Number, nil
	case *podexecv1.PortForwardStart_Name:
		return namedPort(pod, port.Name)
	default:
		return 0, invalidArgument("start.port: needs a number or a name")
	}
}

// namedPort returns the number of a container's port with that name.
func namedPort(pod podview.Pod, name string) (int32, error) {
	if pod.Object == nil {
		return 0, failedPrecondition("the spec of pod %s isn't known, so that its port must be a number", pod.Name)
	}
	var known []string
	spec := &pod.Object.Spec
	for _, list := range [][]v1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.Protocol != "" && p.Protocol != v1.ProtocolTCP {
					continue
				}
				if p.Name == name {
					return p.ContainerPort, nil
				}
				known = append(known, fmt.Sprintf("%s (%d)", p.Name, p.ContainerPort))
			}
		}
	}
	return 0, notFound("pod %s has no port %s for TCP; it has %q", pod.Name, name, known)
}

func hasEnded(p podview.Pod) bool { return p.Status != nil && podmeta.IsTerminal(p.Status.Phase) }

func isRunning(p podview.Pod) bool { return phaseOf(p) == v1.PodRunning }

// phaseOf returns the pod's phase: Pending if there is no status yet.
func phaseOf(p podview.Pod) v1.PodPhase {
	if p.Status == nil {
		return v1.PodPending
	}
	return p.Status.Phase
}
