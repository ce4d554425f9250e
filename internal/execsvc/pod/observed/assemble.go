package observed

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Assemble groups listed sandboxes and containers into pods, unordered, with the fields that lists have. It leaves out those for
// which mine reports false, by their labels and annotations.
func Assemble(
	readAt time.Time, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container,
	mine func(labels, annotations map[string]string) bool,
) []*Pod {
	byUID := map[types.UID]*Pod{}
	pod := func(labels map[string]string) *Pod {
		uid := types.UID(labels[podmeta.PodUIDLabel])
		if byUID[uid] == nil {
			byUID[uid] = &Pod{UID: uid, Namespace: labels[podmeta.PodNamespaceLabel], Name: labels[podmeta.PodNameLabel], ReadAt: readAt}
		}
		return byUID[uid]
	}
	for _, s := range sandboxes {
		if !mine(s.GetLabels(), s.GetAnnotations()) {
			continue
		}
		p := pod(s.GetLabels())
		p.Source = s.GetAnnotations()[podmeta.SourceAnnotation]
		p.Sandboxes = append(p.Sandboxes, Sandbox{
			ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(), Created: time.Unix(0, s.GetCreatedAt()),
			Ready: s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		})
	}
	for _, c := range containers {
		if !mine(c.GetLabels(), c.GetAnnotations()) {
			continue
		}
		p := pod(c.GetLabels())
		p.Containers = append(p.Containers, Container{
			ID: c.GetId(), Name: c.GetMetadata().GetName(), SandboxID: c.GetPodSandboxId(), Attempt: c.GetMetadata().GetAttempt(),
			State: StateOf(c.GetState()), Created: time.Unix(0, c.GetCreatedAt()), Image: c.GetImage().GetImage(), ImageRef: c.GetImageRef(),
			Hash: c.GetAnnotations()[criconfig.ContainerHashAnnotation], GracePeriod: graceOf(c.GetAnnotations()),
		})
	}
	var out []*Pod
	for _, p := range byUID {
		slices.SortFunc(p.Sandboxes, func(a, b Sandbox) int { return cmp.Compare(b.Attempt, a.Attempt) })
		slices.SortFunc(p.Containers, func(a, b Container) int {
			return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.Created.Compare(a.Created))
		})
		out = append(out, p)
	}
	return out
}

// graceOf returns the grace period that was recorded with the container: that of the deletion, or else the pod's own.
func graceOf(annotations map[string]string) *int64 {
	for _, key := range []string{criconfig.PodDeletionGracePeriodAnnotation, criconfig.PodTerminationGracePeriodAnnotation} {
		if n, err := strconv.ParseInt(annotations[key], 10, 64); err == nil {
			return &n
		}
	}
	return nil
}

// StateOf converts a state of the CRI. A state that isn't known is Unknown.
func StateOf(s runtimeapi.ContainerState) State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return Exited
	default:
		return Unknown
	}
}

// SetStatus sets the sandbox's state and network from its status in the runtime.
func (s *Sandbox) SetStatus(status *runtimeapi.PodSandboxStatus) {
	s.Ready = status.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
	s.HostNetwork = status.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	s.IPs = nil
	if ip := status.GetNetwork().GetIp(); ip != "" && !s.HostNetwork {
		s.IPs = append(s.IPs, ip)
		for _, more := range status.GetNetwork().GetAdditionalIps() {
			s.IPs = append(s.IPs, more.GetIp())
		}
	}
}
