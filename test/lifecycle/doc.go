// Package lifecycle tests that pods live and die as Kubernetes' users know it: init containers, sidecars, restarts, probes, hooks,
// termination and images, what a restart of podexecd does to each of them, and how all of this is shown.
//
// Each test writes a manifest, of containers that play what the test needs (test/sample), and awaits what podexecd tells of the pod,
// and what the containers wrote to a directory of the node. It does so on containerd 1.6, on containerd 1.7, which sends events, and on
// the simulated runtime. The tests run in parallel, on one pair of daemons for each runtime, which the bench has; those that end or
// configure daemons have a pair of their own. At the end nothing may be left of any pod.
//
// Goroutines: each bench has two, which follow podexecd's streams until it is closed.
package lifecycle
