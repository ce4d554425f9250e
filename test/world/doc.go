// Package world tests that a pod's processes observe what its manifest describes: volumes, environment, identity,
// resources, names and network. Each field has a row in a table.
//
// A row is a part of a manifest and the expected observations. Most are made inside a container, whose program prints
// them (test/inside). The others are in the pod's status, its events, or the cgroups of the node. The rows run on
// containerd 2, and on 1.7 too if they depend on the runtime, several in parallel, on one pair of daemons for each, or
// on a separate pair with other flags. Each node is in a separate network namespace, which is the node for the pods and
// for requests of a test. Fields that no node here can run are listed at the end: only the runtime's request is tested
// for them, in package criconfig. At the end nothing may be left of any pod.
//
// Goroutines: each bench has two, which follow podexecd's streams until it is closed.
package world
