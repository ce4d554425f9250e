// Package nodes is a whole cluster for tests: a control plane with all its managers, and nodes for its pods. A node
// is a podconfigd and a podexecd on a machine's containerd; or a kubelet, which shows upstream's behaviour in the
// same place.
//
// test/cluster/usage and test/cluster/conformance use it. It doesn't use package testing. The daemons are processes
// of test/devnode, whose goroutines end with the machine.
package nodes
