// Package usage tests the everyday use of a cluster's nodes on a Podstream node: users deploy, roll and drain with
// kubectl, read logs, run commands in containers, forward ports, and expect the kubelet's behaviour.
//
// The site is a whole cluster: an API server with the node authorizer, the controller manager and the scheduler with
// their default settings, a real containerd, and podconfigd and podexecd as node "main". A test that needs a separate
// node, because it drains or deletes it, starts one more pair of daemons on the same containerd. Each test has its
// own namespace, whose pods all go to its node.
//
// There is no proxy and no DNS, so Services have addresses without a server, and no metrics server: TestKubectlTop
// reads the same data through the API server.
//
// It also tests the cluster's view of failures: a long outage of the API server (TestAPIServerAway), a restart of
// podexecd meanwhile (TestRestartedWhileAPIServerIsAway), daemons that die in each phase of a pod's lifecycle
// (TestKillCluster), attackers at the node's own port (TestAttackers), and a node's maximum number of pods at once
// (TestBurst). These look at a node from three sides, a view: the API server's objects, podexecd's status, and the
// runtime's pods; in the end the three agree. The API server's audit log has the nodes' requests.
//
// TestMoved moves StatefulSets with their claims between two nodes with machines of their own, of which one is powered
// off. The log of their CSI driver says whether two nodes had a volume at a time.
//
// It needs root, containerd and the programs that `make test-cluster` builds. Tests run one after another, except
// those that mostly wait.
//
// # Goroutines
//
// A session has one that reads its program's output; the test that started it ends it.
package usage
