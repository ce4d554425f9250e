// Package admission allocates the node's capacity to pods, one pod at a time, so that no two pods get the same CPU,
// memory or host port.
//
// The Queue is a state machine. Its caller, the Agent, passes it values: pods with their last statuses, and a Snapshot
// of the node. It returns decisions, and collects the changes that follow from them for other pods; the caller fetches
// these with Take. The Queue never calls its caller.
//
// Admission depends on the order of the pods, and not on which worker asks first: Check first decides on the waiting
// pods that come before the given one. The order is: pods that were admitted before the restart, critical pods,
// resizes, other pods. A critical pod for which other pods have to end gets a reservation. Nothing else takes that
// capacity until the pod is admitted or gone.
//
// Whether one pod fits is decided by package admit, whether a resize fits by package resize; both are pure. The Queue
// has one lock, under which it calls nothing but these, Config.Swaps, Snapshot.Pressure and the Handler of the
// Snapshot's Node. It runs no goroutines.
package admission
