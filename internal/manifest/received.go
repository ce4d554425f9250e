package manifest

import v1 "k8s.io/api/core/v1"

// Received is the origin of one pod that comes complete, with UID and defaults: from an API server or another podconfigd. What
// it says isn't checked but for its size; one that is too large is an origin that is held. pod isn't changed any more.
func Received(name string, pod *v1.Pod) *Origin {
	p := &parser{origin: &Origin{Name: name}}
	p.accept(pod, p.report(0))
	return p.origin
}
