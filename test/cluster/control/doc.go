// Package control runs a Kubernetes control plane for tests: an etcd, a kube-apiserver with the node authorizer, and
// on request a controller manager and a scheduler, all on loopback, as child processes with one directory for their
// files.
//
// Kubernetes is served at one address. During a simulated outage, the test can change objects through a second server
// on the same etcd, as in a cluster with several servers; only the test uses that one.
//
// # Goroutines
//
// A Process has one, which waits for its end.
package control
