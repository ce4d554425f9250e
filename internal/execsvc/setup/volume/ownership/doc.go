// Package ownership changes a volume to a pod's fsGroup: every file gets that group, which may read and write, or
// only read, existing and new files.
//
// The plugins of package volume call it during SetUp. A container may use the volume meanwhile, so no path is
// resolved: each entry is opened within its directory, never through a link, and changed by its descriptor. Mounts
// inside the volume are not part of it, and stay as they are. The package runs no goroutines and has no state.
package ownership
