// Package history keeps what was published: the current pods, the last revisions, the configured sources, and a small
// tombstone for each removed pod.
//
// One goroutine at a time appends; the Hub's lock ensures that. Any number of goroutines read. A reader has no state
// here: it passes the number of its last revision, and gets the revisions after it, or learns that they are no longer
// kept and takes the current State instead. No reader can delay an append. The package sends nothing and starts no
// goroutines.
package history
