// Package pullrecord records which images were pulled for pods, and with which credentials, in the kubelet's files and
// format: <root-dir>/image_manager/pulling has an ImagePullIntent for each pull under way, and pulled an
// ImagePulledRecord for each image.
//
// Package image writes an Intent before each pull, ends it after, and calls Check before a pod uses an image that the
// node has; package imageaccess decides. Package imagegc calls Listing at each of its rounds, so that records of images
// that are gone are removed. A file is replaced as a whole, and synced before the next step. An Intent ends only when
// the record is on the disk: an image whose pull was interrupted at any point counts as pulled. Of an Intent's file that
// can't be read, the name remains: an image by that name has to be pulled.
//
// Records can be used concurrently. A Check of an image that was loaded tries to open one file; one of an image
// that was pulled reads one, and writes it only if the pod has a new secret with the recorded login, or a new login in the
// recorded secret. The locks: that of an image or a name (locks) before that of the values in memory (mu), under which
// there is no I/O. The package runs no goroutines, calls no runtime, and logs no credentials.
package pullrecord
