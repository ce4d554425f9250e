// Package history keeps what was published: the current pods, the last revisions, the configured sources, and a small
// tombstone for each removed pod.
//
// One goroutine at a time appends; the Hub's lock ensures that. Any number of goroutines read. A reader has no position
// here: it passes the number of its last revision, and gets the revisions after it, or learns that they are no longer
// kept and takes the current State instead. A Reader is registered so that it is woken: one of a few nodes for the
// revisions that concern them, by an index of the revisions by node, and one of all nodes for each revision. No reader
// can delay an append. The package sends nothing and starts no goroutines.
//
// Lock order: making, History.mu. The locks of wide and of a Revision come after History.mu.
package history
