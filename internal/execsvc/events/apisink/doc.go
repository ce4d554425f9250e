// Package apisink takes pods' events to the API server, as the kubelet does, so that `kubectl describe` and `kubectl get events` show
// them: under the component "kubelet", which users' filters look for, and with the node as host.
//
// podexecd makes a Sink if it has a kubeconfig, and gives it to the events.Recorder. Record only puts an event into a queue; client-go
// counts those that repeat, holds back pods that have too many, and sends. While the server is away events wait, a thousand of
// them, and later ones are dropped: events are never worth a pod's time. A Sink runs client-go's goroutines, which end with
// Close. It decides nothing about events.
package apisink
