// Package imagegc removes unused images: the kubelet's image garbage collection
// (pkg/kubelet/images/image_gc_manager.go).
//
// Every five minutes a Collector lists the images and records which are in use. If the usage of their disk is over the
// high threshold, it removes the images that have been unused for the longest time, until usage is at the low
// threshold. Images unused for the maximum age are removed in any case. RemoveUnused removes all unused images, for a
// disk that fills, and Prune those that a caller requests.
//
// An image is in use if any container was created from it, running or not, of any agent, or if a pod of this node
// requires it, or a pull that runs. The runtime's pinned images, such as that of sandboxes, stay too, and so do
// recently detected ones, except with Prune. Nothing is removed if a list fails. Usage is not kept over a restart:
// images that exist at the start count as detected long ago, and the maximum age starts again.
//
// Run is the only goroutine; RemoveUnused and Prune may be called concurrently, and wait for its round. The package
// never pulls an image, and never removes a container.
package imagegc
