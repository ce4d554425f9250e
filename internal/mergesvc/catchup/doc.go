// Package catchup decides what to tell a consumer that isn't in exact history: one that is fresh, that fell behind what is
// kept, that comes from another life of podconfigd, or that can't be placed at all.
//
// Its functions are pure: from a state of the history and what is known of the consumer to the changes that take the consumer
// there. Each pod is in at most one change, but for a pod created anew under a UID that the consumer held, which comes as
// REMOVE and ADD. The stream (mergesvc/service) calls it; nothing here does I/O or keeps state, except Pending, which belongs
// to one stream.
package catchup
