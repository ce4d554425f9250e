package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Requested are containers of one pod whose restart an operator has requested: the ID of the container to replace, by
// its name. The restart is complete once a newer container of that name has started. So an ID is never stopped for a
// successor that exists already. It is never changed once it is made.
type Requested map[string]string

// Has reports whether c is to be replaced.
func (r Requested) Has(c *observed.Container) bool {
	return c != nil && r[c.Name] == c.ID && c.ID != ""
}

// Mark returns has with the ended containers of r marked as replaced, so that they start again whatever their restart
// policy and exit code.
func (r Requested) Mark(has *observed.Pod) *observed.Pod {
	ended := func(c observed.Container) bool { return c.State == observed.Exited && !c.Replaced && r.Has(&c) }
	if has == nil || !slices.ContainsFunc(has.Containers, ended) {
		return has
	}
	marked := *has
	marked.Containers = slices.Clone(has.Containers)
	for i := range marked.Containers {
		if ended(marked.Containers[i]) {
			marked.Containers[i].Replaced = true
		}
	}
	return &marked
}

// Pending returns the part of r that isn't complete. A container that isn't in the pod's spec any more, or that the
// runtime doesn't have, needs no restart; neither does an init container that has been passed.
func (r Requested) Pending(pod *v1.Pod, has *observed.Pod) Requested {
	left, passed := Requested{}, passedOf(pod, has)
	for i, c := range resettable(pod) {
		id, last := r[c.Name], has.Latest(c.Name)
		if id == "" || last == nil || passed(i) {
			continue
		}
		// A successor that was created and never started is removed, and the container to replace is the newest again.
		if last.ID == id || last.State == observed.Created && slices.ContainsFunc(has.Containers, func(c observed.Container) bool { return c.ID == id }) {
			left[c.Name] = id
		}
	}
	return left
}

// passedOf returns a function that reports whether the i-th of the resettable containers is an init container, and no
// sidecar, after which another container was created in the present sandbox: it has ended well, and runs again only in a
// new sandbox.
func passedOf(pod *v1.Pod, has *observed.Pod) func(i int) bool {
	furthest := -1
	if len(has.Sandboxes) > 0 {
		furthest = reached(pod, has, has.Sandboxes[0].ID)
	}
	return func(i int) bool {
		return i < min(furthest, len(pod.Spec.InitContainers)) && !podmeta.IsSidecar(&pod.Spec.InitContainers[i])
	}
}

// requestedReason is the Reason of a Kill.
const requestedReason = "restart requested by an operator"

// requested returns the Kill of a running container whose restart was requested, or nil.
func (p *planner) requested(last *observed.Container) *Kill {
	if !p.Requested.Has(last) {
		return nil
	}
	return &Kill{
		Container: *last, Reason: requestedReason, Grace: podmeta.GracePeriod(p.Pod), Restart: true, Hold: true, Requested: true,
	}
}

// awaitsSidecars reports whether a main container that is restarted together with sidecars must wait until their
// startup probes succeed, as at the pod's start.
func (p *planner) awaitsSidecars() bool {
	return slices.ContainsFunc(p.Pod.Spec.InitContainers, func(c v1.Container) bool {
		if !podmeta.IsSidecar(&c) || c.StartupProbe == nil || p.Requested[c.Name] == "" {
			return false
		}
		last := p.Has.Latest(c.Name)
		return last == nil || p.Requested.Has(last) || last.State != observed.Running || p.Probes[last.ID].Startup != observed.Success
	})
}
