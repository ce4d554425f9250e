package manifest

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest/validate"
)

// Received returns the origin of one pod that comes complete, with UID and defaults: from an API server or another
// podconfigd. Only its size is checked, and that its UID, namespace and name can be elements of a path. The origin of
// an invalid pod is held, and keeps only an earlier version of the same UID, which is being deleted if this one is.
// The caller must not change pod any more.
func Received(name string, pod *v1.Pod) *Origin {
	p := &parser{origin: &Origin{Name: name, Only: pod.UID}}
	r := p.report(0)
	for _, element := range []struct{ field, value string }{
		{"metadata.uid", string(pod.UID)}, {"metadata.namespace", pod.Namespace}, {"metadata.name", pod.Name},
	} {
		for _, message := range validate.PathElement(element.value) {
			r.errorf(element.field, "%q can't be used: it %s", element.value, word(message))
		}
	}
	if !r.failed {
		p.accept(pod, r)
	}
	if at := pod.DeletionTimestamp; p.origin.Held && at != nil {
		p.origin.Deletion = &Deletion{Timestamp: *at, GracePeriodSeconds: pod.DeletionGracePeriodSeconds}
	}
	return p.origin
}
