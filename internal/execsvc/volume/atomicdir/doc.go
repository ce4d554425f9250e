// Package atomicdir gives a directory a content that changes all at once, in the layout of the kubelet, which users' programs know
// and watch:
//
//	..2026_11_21_21_15_04.1234567890/app/conf.yaml     the content
//	..data -> ..2026_11_21_21_15_04.1234567890         what is renamed into place
//	app -> ..data/app                                  what a container opens
//
// Package volume calls Write for the volumes that package payload has the files of, and Finish where these can't be had or written; calls
// for one directory must not meet, but that Written only looks. The package runs no goroutines, and knows nothing but the disk.
//
// All names that begin with ".." are the package's: a Write removes those that a kill has left. Whoever resolves ..data once, at any
// moment, finds the whole content that was written last or the whole one before it; a kill between any two steps changes nothing of
// that, and the next Write or Finish goes on from there. Nothing is synced to the disk: after a crash of the node no container runs, and
// content that was cut short is found by the next Write, which compares it; Finish doesn't see it.
//
// What else is in the directory is left: package volume makes the mount points of volumes that a container mounts below this one.
// No link is followed out of the directory, and nothing is removed through a mount.
package atomicdir
