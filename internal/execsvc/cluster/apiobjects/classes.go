package apiobjects

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

var errClassesUnread = errors.New("RuntimeClasses have not yet been read at least once")

// class is a RuntimeClass and its handler in the container runtime. The file of stored RuntimeClasses has these
// field names.
type class struct{ Name, Handler string }

func (c *Cluster) findClasses(context.Context) (Resource, error) {
	return c.cfg.RuntimeClasses, nil
}

func cutClass(o runtime.Object) (class, bool) {
	rc, ok := o.(*nodev1.RuntimeClass)
	if !ok {
		return class{}, false
	}
	return class{strings.Clone(rc.Name), strings.Clone(rc.Handler)}, true
}

// Handler returns the runtime handler of the pod's RuntimeClass; empty means the default. If the class doesn't
// exist, or isn't known yet, that is an error, and the pod is woken when that changes. A static pod doesn't wait:
// its class name is then used as the handler.
func (c *Cluster) Handler(pod *v1.Pod) (string, error) {
	name := ptr.Deref(pod.Spec.RuntimeClassName, "")
	if name == "" {
		return "", nil
	}
	found, known := c.classes.find(pod.UID, func(c class) bool { return c.Name == name })
	switch {
	case len(found) > 0:
		return found[0].Handler, nil
	case podmeta.IsStatic(pod):
		return name, nil
	case known != read: // It may have been created since the others were stored.
		return "", errClassesUnread
	default:
		return "", apierrors.NewNotFound(nodev1.Resource("runtimeclass"), name)
	}
}
