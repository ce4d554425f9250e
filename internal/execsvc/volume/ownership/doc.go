// Package ownership gives a volume to a pod's fsGroup: every file's group becomes that group, which may read and write, or only
// read, what is there and what will come.
//
// The plugins of package volume call it when they set up a volume. A container may work in the volume meanwhile, so nothing is
// looked up by path: each entry is opened within its directory, never through a link, and changed by what was opened. What is
// mounted inside the volume is not part of it, and is left as it is. The package runs no goroutines and keeps nothing.
package ownership
