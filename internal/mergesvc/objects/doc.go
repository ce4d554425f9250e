// Package objects keeps the ConfigMaps, Secrets and claims that the current pods refer to, and what the claims refer
// to: their values, and the history of both.
//
// A Hub follows the pods' history and counts, for each object, the pods that refer to it. Some sources have values in
// their sets, from manifests (Add, Remove). The Hub passes to the other sources which objects are needed, and
// receives their values (Follow). Each change of a reference or value makes a revision. The revisions are numbered
// under an instance that ends with this process: objects are never written to disk. Package service reads them for
// WatchObjects.
//
// The Hub keeps every reference and value with the range of revisions in which it held, as far back as the ring of
// revisions goes. So a reader is only a position, and the index alone gives what a view saw at any revision in the
// ring. The index is by node. A Reader of a few nodes is woken for the revisions that concern them. A step from one revision to the next costs a reader what the revision changed on its
// nodes; a whole state costs what is on its nodes. A reader that selects no nodes pays for all of them. A pod that is
// added, removed or updated costs its references. A value costs the place that it is stored in. The list of needed
// objects costs what changed in it.
//
// A claim's value decides which PersistentVolume its pods refer to, and that one's value which CSIDriver. So a new value
// may change the references of the pods, in the same revision (needs.go).
//
// The last known value of an object stays while a pod refers to it, until a newer one is known, even if the source
// can't be read any more.
//
// There is one lock, mu. Under it the Hub reads the pods' history, whose lock comes after it, and calls a reader's
// Scope.Match. It sends nothing, logs nothing and merges nothing under it. The package runs two kinds of goroutines,
// Run and the feeder of each Follow; both end with their context. The content of a Secret is in no log line and no
// error.
package objects
