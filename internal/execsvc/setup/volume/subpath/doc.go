// Package subpath binds the subPath of a volumeMount to a mount of its own, and removes such mounts.
//
// Package volume calls Prepare for each container before its creation, CleanUp when a container or a pod is gone, and
// OpenBeneath to read a file of a volume. There are no goroutines, and no state but the disk and the mounts; calls
// for the same target must not overlap.
//
// Containers write to the volume while Prepare reads it, and may replace a directory by a link at any moment. So
// Prepare trusts no name in a volume twice:
//
//  1. It reads the links in the path as text, to learn where the path leads. It reads nothing outside of the volume.
//  2. It opens that place from the volume's root downwards, following no link. If it meets one, it starts again.
//  3. It binds what it opened, by its descriptor, over a target where no container can write.
//
// A link may lead anywhere within its volume, and nowhere else. The package writes into a volume only to create a
// missing subPath, never removes anything through a mount, and never unmounts others' mounts within a volume.
//
// The targets are the kubelet's: <root>/pods/<uid>/volume-subpaths/<volume>/<container>/<index>.
package subpath
