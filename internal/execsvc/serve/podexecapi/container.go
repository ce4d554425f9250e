package podexecapi

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// defaultContainerAnnotation names the container for calls that name none.
const defaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

// chosen is the container of a call.
type chosen struct {
	*v1.ContainerStatus
	// defaulted is set if the call named none, and the first of several containers was taken.
	defaulted *podexecv1.DefaultedContainer
}

// container returns the container of p that a caller names. An empty name means the one that the pod's annotation names, else the first
// ordinary one.
func container(p podview.Pod, name string) (chosen, error) {
	names := containerNames(p)
	var c chosen
	if name == "" {
		name, c.defaulted = names.byDefault(p)
	}
	switch {
	case name == "":
		return chosen{}, failedPrecondition("pod %s has no containers yet", p.Name)
	case !slices.Contains(names.all(), name):
		return chosen{}, notFound("pod %s has no container %s; it has %s", p.Name, name, strings.Join(names.all(), ", "))
	}
	c.ContainerStatus = statusOf(p.Status, name)
	return c, nil
}

// statusOf returns the container's status; if there is none, a status with only its name.
func statusOf(s *v1.PodStatus, name string) *v1.ContainerStatus {
	if s != nil {
		for _, list := range [][]v1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
			for i := range list {
				if list[i].Name == name {
					return &list[i]
				}
			}
		}
	}
	return &v1.ContainerStatus{Name: name}
}

// names are the names of a pod's containers, in the order of its spec.
type names struct{ ordinary, init, ephemeral []string }

func (n names) all() []string { return slices.Concat(n.ordinary, n.init, n.ephemeral) }

// byDefault returns the container of a call that names none, and a description of the choice for the caller: nil if
// the pod has only one container, or its annotation names one.
func (n names) byDefault(p podview.Pod) (string, *podexecv1.DefaultedContainer) {
	annotated := ""
	if p.Object != nil {
		annotated = p.Object.Annotations[defaultContainerAnnotation]
	}
	switch {
	case slices.Contains(n.all(), annotated):
		return annotated, nil
	case len(n.ordinary) == 0:
		return "", nil
	case len(n.all()) == 1 && annotated == "":
		return n.ordinary[0], nil
	}
	const longest = 253 // of a name
	return n.ordinary[0], &podexecv1.DefaultedContainer{
		Name: n.ordinary[0], Containers: n.ordinary, InitContainers: n.init, EphemeralContainers: n.ephemeral,
		UnknownDefault: valid(annotated[:min(len(annotated), longest)]),
	}
}

func containerNames(p podview.Pod) names {
	var n names
	switch {
	case p.Object != nil:
		for _, c := range p.Object.Spec.Containers {
			n.ordinary = append(n.ordinary, c.Name)
		}
		for _, c := range p.Object.Spec.InitContainers {
			n.init = append(n.init, c.Name)
		}
		for _, c := range p.Object.Spec.EphemeralContainers {
			n.ephemeral = append(n.ephemeral, c.Name)
		}
	case p.Status != nil:
		n = names{
			ordinary: namesOf(p.Status.ContainerStatuses), init: namesOf(p.Status.InitContainerStatuses),
			ephemeral: namesOf(p.Status.EphemeralContainerStatuses),
		}
	}
	return n
}

func namesOf(statuses []v1.ContainerStatus) []string {
	var names []string
	for _, c := range statuses {
		names = append(names, c.Name)
	}
	return names
}

// runtimeID returns a container's ID in the runtime: in a status it has the runtime's name as a prefix.
func runtimeID(id string) string {
	if _, own, ok := strings.Cut(id, "://"); ok {
		return own
	}
	return id
}

// waitingReason returns the reason why a container doesn't exist yet.
func waitingReason(c *v1.ContainerStatus) string {
	if c.State.Waiting != nil && c.State.Waiting.Reason != "" {
		return c.State.Waiting.Reason
	}
	return "it hasn't been created yet"
}

// writerFunc is a writer of one function.
type writerFunc func(p []byte) error

// Write implements io.Writer.
func (w writerFunc) Write(p []byte) (int, error) {
	if err := w(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
