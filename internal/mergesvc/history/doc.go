// Package history remembers what was published: the current pods, the last revisions, and a small tombstone for each pod that
// is gone.
//
// Which sources are configured is part of it: a revision may say so, and a State of the past has those of its time.
//
// One goroutine at a time appends (the Hub's lock sees to that); any number read. Readers hold nothing: they name the revision
// they have and get those after it, or learn that they are no longer kept and take the current State instead. Nothing is sent
// from here, and no reader can delay an append. The package starts no goroutines.
package history
