// Package cluster holds podconfigd's source api against a real Kubernetes API server: an etcd, a kube-apiserver with the node
// authorizer, and the real podconfigd, which has no more than a node's credentials. What clients do to pods, ConfigMaps and
// Secrets must come out of podconfigd's streams as the ops that it is, and outages of either side must lose and invent nothing.
//
// There is no scheduler, controller or podexecd: pods are created with their node's name, and nothing but the test changes them.
// So a stream can be compared revision by revision. Each test has a node of its own, with its credentials and its podconfigd.
//
// Package control is the control plane; package usage is what people do with a whole cluster.
//
// It is a module of its own, because it needs programs that nothing else does, those of a control plane. `make test-cluster`
// provides them and runs this twice: on a current etcd, and on one before 3.4.31, with which the server can't serve a WatchList, so
// that podconfigd has to make do with lists. The tests run one after another.
//
// # Goroutines
//
// A stream has one that reads it; the test that starts one ends it.
package cluster
