// Package atomicdir replaces the content of a directory atomically, in the layout of the kubelet, on which users'
// programs rely:
//
//	..2026_11_21_21_15_04.1234567890/app/conf.yaml     the content
//	..data -> ..2026_11_21_21_15_04.1234567890         the link that is renamed into place
//	app -> ..data/app                                  the path that a container opens
//
// Package volume calls Write with the files of package payload, and Finish when these aren't available or can't be
// written; calls for one directory must not overlap, except for Written, which only reads. The package runs no
// goroutines, and its only state is the disk.
//
// All names that begin with ".." are reserved for the package: a Write removes leftovers of a crash. A reader that
// resolves ..data once, at any moment, finds either the whole last content or the whole one before it, also after a
// crash between any two steps; the next Write or Finish continues from there. Nothing is synced to the disk: after a
// crash of the node no container runs, and the next Write, which compares the content, repairs truncated files;
// Finish doesn't.
//
// Other entries of the directory stay: package volume creates the mount points of volumes that a container mounts
// below this one. No link is followed out of the directory, and nothing is removed through a mount.
package atomicdir
