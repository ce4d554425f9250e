// Package volume sets up the volumes of pods on the node, returns their mounts for containers, and tears them down. A
// Plugin implements one kind of volume; emptyDir, hostPath, configMap, secret, downwardAPI, projected and image are
// built in.
//
// A pod worker calls SetUp before it starts containers and at each sync of the pod, so that changed ConfigMaps and
// Secrets reach the volumes; Mounts for each container before it is created; and TearDown after all have ended. Each
// may be repeated at any time, also after a crash during a call. Housekeeping calls PodsOnDisk. A Manager's state is
// the disk, the mount table, and which hostPaths were good. A pod's volumes are set up and torn down side by side, by
// goroutines that end with the call; package nodefs, which checks hostPaths, has others. Calls for different pods are
// independent; those for one pod must not overlap.
//
// Nothing below a hostPath is ever removed, and nothing is ever removed through a mount: TearDown reports a mount
// that it can't unmount, and leaves it. A Located plugin, such as package storage, decides where its volumes lie, and
// unmounts them itself. In the directories of persistent volumes the Manager unmounts nothing, and removes only empty
// directories. The file system of a volume whose Source has a Foreign name may hang: its subPaths are bound by helpers of
// package foreign, and so are those removed that are on another file system than the pods' directories.
//
// The directories are the kubelet's:
//
//	<root>/pods/<uid>/volumes/kubernetes.io~empty-dir/<volume>
//	<root>/pods/<uid>/volumes/kubernetes.io~csi/<PersistentVolume>/mount
//	<root>/pods/<uid>/volumeDevices/kubernetes.io~csi/<PersistentVolume>
//	<root>/pods/<uid>/volume-subpaths/<volume>/<container>/<index of the volumeMount>
//
// Its sub-packages: payload computes the files of a configMap, secret, downwardAPI or projected volume, atomicdir
// writes them, subpath resolves a path in a volume that a container may change concurrently, ownership changes a
// volume to the pod's fsGroup.
package volume
