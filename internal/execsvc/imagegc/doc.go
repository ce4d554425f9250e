// Package imagegc removes images that nobody uses: the kubelet's image garbage collection (pkg/kubelet/images/image_gc_manager.go).
//
// A Collector looks every five minutes at which images there are and which of them are used, and remembers since when. Where the disk that they
// are on is fuller than the high threshold, those that haven't been used for the longest time go, until it is as empty as the low one; and those
// that haven't been used for the maximum age go in any case. RemoveUnused removes all that may go, for a disk that runs full.
//
// An image is used if a container was made of it, whether that runs or not and whose ever it is, or if a pod here needs it, though it has no
// container yet. It stays also if the runtime pins it, as it does the one of sandboxes, or if it came lately. What was used when isn't kept over a
// restart: images that are there at the start count as having come long ago, and the maximum age begins anew.
//
// Run is the only goroutine; RemoveUnused may be called beside it, and waits for it. The package never pulls an image, and never removes a
// container.
package imagegc
