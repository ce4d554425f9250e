// Package world gives pods what they find on the node: it puts together what the rooms below it make, each for its part of a pod (package
// volume what is mounted, podenv the environment, dns and hosts the names, cgroup the bounds, userns the users), and what a cluster has for pods.
//
// A pod's worker calls SetUp before anything of the pod is started, and again at each sync, and TearDown once all of it has ended. Package
// runtime asks for a sandbox's and a container's part as it makes them: a World is its runtime.World. There are no goroutines, and nothing
// is remembered here.
package world
