package actions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Errors of Request.
var (
	// ErrUnknownContainer is wrapped if the pod has no container of that name.
	ErrUnknownContainer = errors.New("the pod has no such container")
	// ErrNotRestartable is wrapped if the pod, or the container, has nothing to restart now.
	ErrNotRestartable = errors.New("nothing to restart")
)

// Request returns the containers that an operator's request restarts: the one of that name, or if it is empty the whole
// pod. before are the pod's earlier requests: a container whose restart is pending there has its entry of before.
//
// A restart of the whole pod covers the main containers, the sidecars, and an init container that hasn't ended well.
// A container that wasn't started yet is left out, because it starts anyway.
func Request(pod *v1.Pod, has *observed.Pod, before Requested, container string) (Requested, error) {
	pending, passed := before.Pending(pod, has), passedOf(pod, has)
	asked := Requested{}
	var why error
	for i, c := range resettable(pod) {
		if container != "" && c.Name != container {
			continue
		}
		init := i < len(pod.Spec.InitContainers) && !podmeta.IsSidecar(c)
		id, err := toReplace(c, has.Latest(c.Name), init, passed(i))
		switch {
		case pending[c.Name] != "":
			asked[c.Name] = pending[c.Name]
		case err != nil:
			why = err
		default:
			asked[c.Name] = id
		}
	}
	switch {
	case len(asked) > 0:
		return asked, nil
	case container == "":
		return nil, fmt.Errorf("%w: no container of the pod has started yet", ErrNotRestartable)
	case why != nil:
		return nil, why
	case slices.ContainsFunc(pod.Spec.EphemeralContainers, func(e v1.EphemeralContainer) bool { return e.Name == container }):
		return nil, fmt.Errorf("%w: container %s is ephemeral, and runs only once", ErrNotRestartable, container)
	}
	var names []string
	for _, c := range resettable(pod) {
		names = append(names, c.Name)
	}
	return nil, fmt.Errorf("%w: %s; it has %s", ErrUnknownContainer, container, strings.Join(names, ", "))
}

// completed reports whether an init container has ended well. A reading without details doesn't show it.
func completed(last *observed.Container) bool {
	return last != nil && last.State == observed.Exited && last.ExitCode == 0 && !last.Finished.IsZero()
}

// toReplace returns the ID of last, the newest container of c, or why it isn't to be replaced. init is set for an init
// container that is no sidecar, passed if a later one was created.
func toReplace(c *v1.Container, last *observed.Container, init, passed bool) (id string, err error) {
	switch {
	case passed, init && completed(last):
		return "", fmt.Errorf("%w: init container %s has completed, and runs again only in a new sandbox", ErrNotRestartable, c.Name)
	case last == nil || last.State == observed.Created:
		return "", fmt.Errorf("%w: container %s hasn't started yet", ErrNotRestartable, c.Name)
	}
	return last.ID, nil
}
