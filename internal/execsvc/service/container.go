package service

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/board"
)

// defaultContainerAnnotation names the container that is meant when none is named.
const defaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

// container is the status of the container of p that a caller names. An empty name means the one that the pod's annotation names, or else
// its only one.
func container(p board.Pod, name string) (*v1.ContainerStatus, error) {
	ordinary, all := containerNames(p)
	if name == "" {
		switch chosen := defaultContainer(p); {
		case slices.Contains(all, chosen):
			name = chosen
		case len(ordinary) == 1:
			name = ordinary[0]
		default:
			return nil, status.Errorf(codes.InvalidArgument, "container: name one of %s", strings.Join(all, ", "))
		}
	}
	if !slices.Contains(all, name) {
		return nil, status.Errorf(codes.NotFound, "pod %s has no container %s; it has %s", p.Name, name, strings.Join(all, ", "))
	}
	if p.Status != nil {
		for _, list := range [][]v1.ContainerStatus{
			p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses,
		} {
			for i := range list {
				if list[i].Name == name {
					return &list[i], nil
				}
			}
		}
	}
	return &v1.ContainerStatus{Name: name}, nil
}

func defaultContainer(p board.Pod) string {
	if p.Object == nil {
		return ""
	}
	return p.Object.Annotations[defaultContainerAnnotation]
}

// containerNames are those of the pod's ordinary containers, and of all, which come in the order in which people look for them.
func containerNames(p board.Pod) (ordinary, all []string) {
	var others []string
	switch {
	case p.Object != nil:
		for _, c := range p.Object.Spec.Containers {
			ordinary = append(ordinary, c.Name)
		}
		for _, c := range p.Object.Spec.InitContainers {
			others = append(others, c.Name)
		}
		for _, c := range p.Object.Spec.EphemeralContainers {
			others = append(others, c.Name)
		}
	case p.Status != nil:
		for _, c := range p.Status.ContainerStatuses {
			ordinary = append(ordinary, c.Name)
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses) {
			others = append(others, c.Name)
		}
	}
	return ordinary, slices.Concat(ordinary, others)
}

// runtimeID is a container's ID as the runtime knows it: a status has the runtime's name before it.
func runtimeID(id string) string {
	if _, own, ok := strings.Cut(id, "://"); ok {
		return own
	}
	return id
}

// waitingReason is why a container isn't there yet.
func waitingReason(c *v1.ContainerStatus) string {
	if c.State.Waiting != nil && c.State.Waiting.Reason != "" {
		return c.State.Waiting.Reason
	}
	return "it hasn't been made yet"
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
