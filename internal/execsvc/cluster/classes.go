package cluster

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

var errClassesUnread = errors.New("RuntimeClasses have not yet been read at least once")

// class is a RuntimeClass: how the runtime calls it. Its fields' names stand in the file by which RuntimeClasses are remembered.
type class struct{ Name, Handler string }

func (c *Cluster) findClasses(context.Context) (resource, error) {
	return resourceOf(c.client.NodeV1().RuntimeClasses()), nil
}

func cutClass(o runtime.Object) (class, bool) {
	rc, ok := o.(*nodev1.RuntimeClass)
	if !ok {
		return class{}, false
	}
	return class{strings.Clone(rc.Name), strings.Clone(rc.Handler)}, true
}

// Handler is what the runtime calls the pod's RuntimeClass; empty for its default. A class that doesn't exist, or isn't known yet, is
// an error: the pod has to wait, and is woken when that changes. Only a static pod doesn't: for it such a class is what the runtime calls so.
func (c *Cluster) Handler(pod *v1.Pod) (string, error) {
	name := ptr.Deref(pod.Spec.RuntimeClassName, "")
	if name == "" {
		return "", nil
	}
	found, known := c.classes.find(pod.UID, func(c class) bool { return c.Name == name })
	switch {
	case len(found) > 0:
		return found[0].Handler, nil
	case criconfig.Static(pod):
		return name, nil
	case known != read: // It may have been made since others were remembered.
		return "", errClassesUnread
	default:
		return "", apierrors.NewNotFound(nodev1.Resource("runtimeclass"), name)
	}
}
