// Package pleg is the pod lifecycle event generator: it reads the state of the runtime's pods and reports their
// changes.
//
// It owns the cache of pod states. There are two signs of a change: events of the runtime, if it has them, and the
// kernel's report of the end of a process that a full reading showed running. A sign causes a reading; its content
// isn't used. An event is dropped only if the last full reading already has its states, because containers never go
// back: they are created, run, exit. The relist is authoritative: each second, or each 30 s while events arrive or all
// running processes are followed. So an event that is lost, doubled or out of order costs time only. A worker gets the
// last full reading until a sign invalidates it (Current), and has the pod read again after each of its own actions
// (Refresh). The runtime's events of a pod in between (Act) are compared with that reading.
//
// The kernel reports an end some time before the runtime does, so a reading may come too early. Then the pod is marked
// again, after pauses that double, until a reading shows the end; once the pause would be longer than a second, relists
// run each second instead.
//
// Events wait in a set that can't overflow until the sync loop takes them, so none is lost however slow the loop is.
// Run has three goroutines: one relists, one reads the runtime's events, one the kernel's. Refresh runs in its
// caller's, so that a pod whose reading hangs delays no other. The package never changes a pod. PLEG.mu comes before
// any lock of Exits.
package pleg
