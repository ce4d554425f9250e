// Package pleg is the pod lifecycle event generator: it finds out what the runtime's pods are doing and says what changed.
//
// It owns the cache of pod states. A relist each second is the authority; after each of its own actions a worker has the one
// pod read again at once (Refresh). Events wait in a set that can't overflow until the sync loop takes them, so none is lost
// however slow the loop is. Run is the one goroutine. It never acts upon a pod.
package pleg
