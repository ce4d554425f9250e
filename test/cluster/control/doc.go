// Package control runs a Kubernetes control plane for tests: an etcd, a kube-apiserver with the node authorizer, and where a test asks
// for them a controller manager and a scheduler, all on loopback, as child processes with one directory for what they keep.
//
// Kubernetes is served at one address. While a test means it to be away, the test can change things through a second server on the same
// etcd, as in a cluster with several servers: nobody else knows of that one.
//
// # Goroutines
//
// A Process has one, which waits for its end and lives as long as it does.
package control
