// Package catchup computes the changes for a consumer that isn't in exact history: one that is fresh, that is behind
// what is kept, whose cursor is from another instance, or that has no position at all.
//
// Its functions are pure. Their inputs are a state of the history, the consumer's view and what the consumer holds;
// their result takes the consumer to what the view shows of the state. Each pod is in at most one change. Only a pod
// that replaces another one under a UID that the consumer held comes as REMOVE and ADD. In the snapshot modes a SET
// reports everything, if anything changed, except known removals of sources that aren't ready: REMOVEs before the SET
// report these.
//
// Two facts are unknown here. First, whether a changed pod was in the view before, where labels or nodes decide: it
// comes as an ADD, which updates, or as a REMOVE that may remove nothing. Second, whether a stale pod is as its
// source has it now: it may add a pod, as RESTORE, but it doesn't change a pod that the consumer holds. Such pods,
// and those that only the consumer has, are Pending until their source was read, or isn't configured and all others
// were read.
//
// What a consumer says that it holds is only compared with pods as its view shows them.
//
// The stream (mergesvc/service) calls it. The package does no I/O, runs no goroutines and keeps no state, except
// Pending, which belongs to one stream.
package catchup
