// Package removals bounds how many running pods the config stream can end in a minute (--max-removals-per-minute), so
// that a podconfigd that lies, or is misled, can't end all pods of a node at once.
//
// A Gate stands between the stream and the store. It passes an event on without the removals and deletions that exceed
// the limit, and holds those: the pods stay desired, in the store too. It passes them on later, in their order, as the
// limit allows; the removal of a pod that has ended by itself meanwhile waits for none. If the stream has a held pod
// again, the removal is dropped. Only pods that are desired are held, so their number is bounded.
//
// While removals are held, the store gets cursors without a revision. After a restart the stream then compares all pods,
// and brings the held removals again. The times of removals are stored too: a restart doesn't renew the limit.
//
// Deliver is called by one goroutine, and Run by another one; both pass events on under Gate.mu, so in one order.
// It starts no goroutine, and never ends a pod itself.
package removals
