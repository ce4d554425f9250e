// Package subpath makes what a volumeMount's subPath names into a mount of its own, and takes such mounts away again.
//
// Package volume calls Prepare for each container that is about to be created, CleanUp once a container or a pod has gone, and
// OpenBeneath to read a file of a volume. There are no goroutines, and no state but the disk and the mounts; only calls for one and
// the same target must not overlap.
//
// Containers write in the volume while Prepare looks at it, and may change a directory for a link at any moment. So no name in a
// volume is trusted twice:
//
//  1. The links on the way are read as text, to learn where the path leads. Nothing outside of the volume is looked at.
//  2. That place is opened from the volume's root downwards, following no link. If one has come meanwhile, begin anew.
//  3. What has been opened is what is bound, by its descriptor, over a target where no container can write.
//
// A link may lead anywhere within its volume, and nowhere else. The package never writes into a volume but to make a missing subPath,
// never removes anything through a mount, and never unmounts what others have mounted within a volume.
//
// The targets are the kubelet's: <root>/pods/<uid>/volume-subpaths/<volume>/<container>/<index>.
package subpath
