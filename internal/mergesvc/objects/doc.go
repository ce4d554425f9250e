// Package objects knows the ConfigMaps and Secrets that the current pods refer to: which they are, what is in them, and how that
// came to be.
//
// A Hub follows the pods' history and counts, for each object, the pods that refer to it. Values come from the sources: with the sets
// of those that have their objects in manifests (Apply), and from those that have to be asked (Follow), which the Hub tells which
// objects are wanted. Both make revisions of the objects' own, under an instance that ends with this process: objects are never
// written to disk. Package service reads them for WatchObjects.
//
// The Hub keeps every reference and every value with the revisions between which it held, as far back as the ring of revisions goes.
// So a reader is a position and nothing else, and what a view saw at any revision in the ring can be told from the index alone.
// The index is one by node: a step from one revision to the next costs a reader what the revision changed on its own nodes, a whole
// state what is on its nodes, and neither what there is elsewhere. A reader without a choice of nodes pays for all of them. A pod costs
// what it refers to when it comes, goes, or is updated; a value, the place it is kept in; what is wanted of a source that is asked, what
// is new of it.
//
// What was told of an object stands, as long as a pod refers to it, until something else is known of it: a source that can't tell any
// more takes nothing back.
//
// There is one lock, mu. Under it the Hub reads the pods' history, whose lock comes after it, and asks a reader's Scope whether it
// matches a pod; it sends nothing, logs nothing and merges nothing under it. Run and the feeder of each Follow are the package's only
// goroutines beside its callers'; both end with their context. A Secret's content is in no log line and no error.
package objects
