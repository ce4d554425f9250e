// Package tree works on the directories of claims, <root>/NAMESPACE/NAME, with all that is below them: Survey measures them,
// Remove and Sweep remove them, Export writes one as a tar archive, and Import makes one from such an archive.
//
// Package foreign calls it, in helper processes: a file system may hang, and a directory's content is an attacker's. It runs
// no goroutine, and knows nothing of pods: package claimvolumes says first that no pod uses a directory.
//
// No link is followed below the root, and no mount is crossed: a directory is opened with RESOLVE_NO_XDEV and
// RESOLVE_NO_SYMLINKS, relative to its open parent. Remove and Import change a directory by one rename, to or from
// <root>/.incomplete, which is no namespace's name; what a process that was killed has left there is removed by Sweep.
package tree
