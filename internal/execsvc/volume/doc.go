// Package volume makes the volumes of pods on the node, says what of them a container sees, and takes them away again. A Plugin is
// one kind of volume; emptyDir, hostPath, configMap, secret, downwardAPI, projected and image are built in.
//
// A pod's worker calls SetUp before it starts containers and whenever it syncs the pod, so that changed ConfigMaps and Secrets come
// into the volumes; Mounts for each container before it is created; and TearDown once all have ended. Each may be called again at
// any time, after a crash of the agent in any of them too. Housekeeping asks for Leftovers. A Manager has no state but the disk, the
// mount table, and which hostPaths were good, and runs no goroutines; calls for different pods don't meet, those for one pod must not.
//
// What is below a hostPath is never removed. Nothing is ever removed through a mount: what TearDown can't unmount, it reports,
// and leaves.
//
// The directories are the kubelet's:
//
//	<root>/pods/<uid>/volumes/kubernetes.io~empty-dir/<volume>
//	<root>/pods/<uid>/volume-subpaths/<volume>/<container>/<index of the volumeMount>
//
// Its sub-packages: payload says which files a configMap, secret, downwardAPI or projected volume has, atomicdir writes them,
// subpath goes to a path in a volume that a container may change meanwhile, ownership gives a volume to the pod's fsGroup.
package volume
