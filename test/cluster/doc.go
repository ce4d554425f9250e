// Package cluster tests podconfigd's source api against a real Kubernetes API server: an etcd, a kube-apiserver
// with the node authorizer, and the real podconfigd, with only a node's credentials. Changes that clients make
// to pods, ConfigMaps and Secrets must appear in podconfigd's streams as the right ops. Outages of either side
// must not lose or add any.
//
// There is no scheduler, controller or podexecd: pods are created with their node's name, and only the test changes
// them. So a stream can be compared revision by revision. Each test has its own node, with credentials and a
// podconfigd.
//
// Package control is the control plane; package usage tests the everyday use of a whole cluster.
//
// It is a separate module, because it needs the programs of a control plane. `make test-cluster` builds them and runs
// the tests twice: on a current etcd, and on one before 3.4.31, with which the server can't serve a WatchList, so
// that podconfigd must use lists. The tests run one after another.
//
// # Goroutines
//
// A stream has one that reads it; the test that starts one ends it.
package cluster
