// Package cluster holds podconfigd's source api against a real Kubernetes API server: an etcd, a kube-apiserver with the node
// authorizer, and the real podconfigd, which has no more than a node's credentials. What clients do to pods, ConfigMaps and
// Secrets must come out of podconfigd's streams as the ops that it is, and outages of either side must lose and invent nothing.
//
// There is no scheduler, controller or kubelet: pods are created with their node's name, and nothing but the test changes them.
// So a stream can be compared revision by revision. Each test has a node of its own, with its credentials and its podconfigd.
//
// Kubernetes is served at one address. While a test means it to be away, the test can change things through a second server on
// the same etcd, as in a cluster with several servers: podconfigd doesn't know of that one.
//
// It is a module of its own, because it needs programs that nothing else does, a kube-apiserver and an etcd. `make test-cluster`
// provides both and runs it twice: on a current etcd, and on one before 3.4.31, with which the server can't serve a WatchList, so
// that podconfigd has to make do with lists. The tests run one after another.
//
// # Goroutines
//
// A process has one that waits for its end, a stream one that reads it. The test that starts one ends it.
package cluster
