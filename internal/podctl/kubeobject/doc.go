// Package kubeobject makes Kubernetes' objects of what the daemons have, as `kubectl get` prints them: a pod is the one that
// podconfigd wants with the status that podexecd observes.
//
// It is pure: it makes no calls and starts no goroutines. `podctl get` prints its objects.
package kubeobject
