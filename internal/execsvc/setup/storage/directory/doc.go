// Package directory has the volumes of claims that are directories of the node: <volume-dir>/NAMESPACE/CLAIM. It is a
// storage.Backend, which mounts a directory into a pod's, and Dirs, which are the directories themselves.
//
// Package storage calls the Backend and decides when. Package staticclaim has a directory created, once, when it binds a
// claim. The package removes nothing. Its goroutines are those of changes to a pod's fsGroup, one for each, which a helper of
// package foreign makes: the change of many files outlasts the call that began it, and ends with Unpublish or Close.
//
// A directory and its content outlive the pod, the claim and the manifest.
// A directory that was created and is missing isn't created again: the file system that has it may not be mounted, and
// the pod would start without its data.
//
// Names of namespaces and claims are checked before they become a part of a path. Containers write below a directory, and
// never beside it; even so no link is followed on the way to it, and no mount is crossed: --volume-dir can be on a file
// system of its own, a claim's directory can't. Mounts are made between open directories.
package directory
