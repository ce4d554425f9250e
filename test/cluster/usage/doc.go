// Package usage is what people do with a cluster's nodes every day, done to a Podstream node: they deploy, roll and drain with kubectl, read
// logs, go into containers, forward ports, and expect what the kubelet taught them to.
//
// The site is a whole cluster: an API server with the node authorizer, the controller manager and the scheduler with all that they do by
// default, a real containerd, and podconfigd and podexecd as node "main". A test that needs a node for itself, as it drains or deletes it,
// starts one more pair of daemons on the same containerd. Each test has a namespace of its own, whose pods all go to its node.
//
// There is no proxy and no DNS, so Services have addresses that nobody answers at, and no metrics server: TestKubectlTop reads what that one
// would read, through the API server.
//
// And it is what the cluster sees when things break: an API server that is away for long (TestAPIServerAway), a podexecd that is restarted
// meanwhile (TestRestartedWhileAPIServerIsAway), daemons that die in each phase of a pod's life (TestKillCluster), attackers at the node's own
// port (TestAttackers), and all the pods that a node takes at once (TestBurst). These look at a node from three sides, a view: what the API
// server has of it, what podexecd shows, and what the runtime runs; when all has come to rest the three agree. What nodes asked the API server
// to change stands in its audit log.
//
// It needs root, containerd and the programs that `make test-cluster` builds. Tests run one after another, except those that mostly wait.
//
// # Goroutines
//
// A session has one that reads its program's output; the test that started it ends it.
package usage
