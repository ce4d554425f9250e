// Package volume makes the volumes of pods on the node, says what of them a container sees, and takes them away again. It knows
// emptyDir and hostPath.
//
// A pod's worker calls SetUp before it starts containers, Mounts for each of them, and TearDown once all have ended; each may be
// called again at any time, after a restart of the agent too. Housekeeping asks for Leftovers. A Manager has no state but the
// disk and the mount table, and runs no goroutines; calls for different pods don't meet.
//
// What is below a hostPath is never removed. Nothing is ever removed through a mount: what TearDown can't unmount, it reports,
// and leaves.
//
// The directories are the kubelet's: <root>/pods/<uid>/volumes/kubernetes.io~empty-dir/<volume>.
package volume
