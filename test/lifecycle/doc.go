// Package lifecycle tests that pods behave as Kubernetes defines: init containers, sidecars, restarts, probes, hooks,
// termination and images, the effect of a restart of podexecd on each of them, and the status that shows all this.
//
// Each test writes a manifest, with containers that behave as the test needs (test/sample). It waits for the pod's
// status at podexecd, and for the containers' output in a directory of the node. It runs on containerd 1.7
// and 2 and on the simulated runtime, and one test on the containerd that is installed. The tests run in parallel. They share one pair of
// daemons, the bench, for each runtime. Tests that stop or configure daemons have their own pair. At the end nothing
// may be left of any pod.
//
// Goroutines: each bench has two, which follow podexecd's streams until it is closed.
package lifecycle
