// Package apisink sends pods' events to the API server, as the kubelet does, so that `kubectl describe` and `kubectl
// get events` show them. Their component is "kubelet", for which users filter, and their host is the node.
//
// podexecd makes a Sink if it has a kubeconfig, and gives it to the events.Recorder. Record only queues an event;
// client-go aggregates repeated events, limits the events of each pod, and sends them. While the server is away up
// to 1000 events wait; later ones are dropped, so that events never delay a pod. A Sink runs client-go's goroutines,
// which end with Close. It decides nothing about events.
package apisink
