package stream

import (
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// find returns the pod that a request names. Of two of one name it returns the desired one; a UID may also be that
// of its mirror pod.
func (h *Handler) find(r *http.Request) (podview.Pod, error) {
	namespace, name, uid := r.PathValue("namespace"), r.PathValue("pod"), types.UID(r.PathValue("uid"))
	var named []podview.Pod
	for _, p := range h.cfg.Pods.All() {
		if p.Namespace == namespace && p.Name == name {
			named = append(named, p)
		}
	}
	if len(named) == 0 {
		return podview.Pod{}, notFound("pod %q does not exist", name)
	}
	if uid != "" && uid != h.cfg.MirrorUID(namespace, name) {
		i := slices.IndexFunc(named, func(p podview.Pod) bool { return p.UID == uid })
		if i < 0 {
			return podview.Pod{}, notFound("pod %q does not exist with UID %q", name, uid)
		}
		return named[i], nil
	}
	if i := slices.IndexFunc(named, func(p podview.Pod) bool { return p.Desired }); i >= 0 {
		return named[i], nil
	}
	return named[len(named)-1], nil
}

// container is a container of a pod.
type container struct {
	name string
	// tty is set if its main process has a terminal.
	tty bool
	// status is its last known status, or nil.
	status *v1.ContainerStatus
}

// containerOf returns the pod's container of that name, of any kind. If only the pod's status is left, it has the
// containers of that.
func containerOf(p podview.Pod, name string) (container, bool) {
	c, found := container{name: name}, false
	status := p.Status
	if p.Object != nil {
		spec := &p.Object.Spec
		for _, s := range slices.Concat(spec.Containers, spec.InitContainers) {
			if s.Name == name {
				c.tty, found = s.TTY, true
			}
		}
		for _, s := range spec.EphemeralContainers {
			if s.Name == name {
				c.tty, found = s.TTY, true
			}
		}
		if status == nil {
			status = &p.Object.Status
		}
	}
	if status != nil {
		for _, s := range slices.Concat(status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses) {
			if s.Name == name {
				c.status = &s
			}
		}
	}
	return c, found || p.Object == nil && c.status != nil
}

// running returns the container that a request names, and its ID, if it runs.
func running(r *http.Request, pod podview.Pod) (c container, id string, err error) {
	name := r.PathValue("container")
	c, ok := containerOf(pod, name)
	switch {
	case !ok:
		return c, "", notFound("container not found (%q)", name)
	case c.status == nil || c.status.State.Waiting != nil:
		return c, "", badRequest("container not found (%q): it is waiting to start: %s", name, waitsFor(c.status))
	case c.status.State.Terminated != nil:
		return c, "", badRequest("container not found (%q): it has ended", name)
	case c.status.State.Running == nil:
		return c, "", badRequest("container not found (%q): it isn't running", name)
	}
	return c, runtimeID(c.status.ContainerID), nil
}

// waitsFor returns the reason why a container doesn't exist yet.
func waitsFor(s *v1.ContainerStatus) string {
	if s == nil || s.State.Waiting == nil || s.State.Waiting.Reason == "" {
		return "it hasn't been created yet"
	}
	return s.State.Waiting.Reason
}

// runtimeID returns a container's ID in the runtime: in a status it has the runtime's name as a prefix.
func runtimeID(id string) string {
	if _, own, ok := strings.Cut(id, "://"); ok {
		return own
	}
	return id
}
