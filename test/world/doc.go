// Package world tests that what a pod's author writes is what the pod's processes find: volumes, environment, identity, resources, names
// and network, each field by a row of a table.
//
// A row is a part of a manifest and what has to be seen then: mostly from inside a container, whose program prints what it finds
// (test/inside), or else in the pod's status, its events, or the cgroups of the node. The rows run on containerd 1.6 and 1.7, several at a
// time, on one pair of daemons for each, or on one with flags of its own. Each node is in a network namespace of its own: to the pods, and
// to what a test asks from there, that is the node. What this machine can't run is named at the end: of that only the runtime's
// request is tested, in package criconfig. At the end nothing may be left of any pod.
//
// Goroutines: each bench has two, which follow podexecd's streams until it is closed.
package world
