// Package catchup decides what to tell a consumer that isn't in exact history: one that is fresh, that fell behind what is
// kept, that comes from another life of podconfigd, or that can't be placed at all.
//
// Its functions are pure: from a state of the history, the consumer's view and what is known of the consumer to the changes that
// take it to what the view shows of the state. Each pod is in at most one change, but for a pod that is another one under a UID
// that the consumer held, which comes as REMOVE and ADD. In the snapshot modes a SET tells everything, where there is anything
// to tell, but for what is known to be gone of a source that isn't ready: REMOVEs before the SET tell that.
//
// Two things aren't known here. Whether a pod that changed was in the view before, where labels or nodes decide: it comes as an
// ADD, which updates, or as a REMOVE that perhaps removes nothing. And whether a stale pod, known from the store only, is as its
// source will have it: it adds, as RESTORE, but what the consumer holds isn't changed on the store's word. Such pods, and those
// that only the consumer knows of, are Pending until their source has spoken, or isn't configured and all others have.
//
// What a consumer says it holds is compared with pods as its view shows them, and never with what it may not see.
//
// The stream (mergesvc/service) calls it; nothing here does I/O, runs goroutines or keeps state, except Pending, which belongs to
// one stream.
package catchup
