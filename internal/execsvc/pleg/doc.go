// Package pleg is the pod lifecycle event generator: it finds out what the runtime's pods are doing and says what changed.
//
// It owns the cache of pod states. Two tell that something happened to a pod: the runtime, if it has events, and the kernel, when a
// process ends that a full reading showed running. What happened is read, never believed; only an event that tells no more than the last
// full reading has is dropped, as containers never go back: they are created, run, exit. The relist is the authority behind them: each
// second, or each 30 s while events come or all that runs is followed. So an event that is lost, doubled or out of order costs time,
// and nothing else. A worker gets the last full reading for as long as nothing speaks against it (Current), and has the pod read again
// after each of its own actions (Refresh). What the runtime tells of a pod meanwhile (Act) is held against that reading.
//
// The kernel knows of an end some time before the runtime does, so a reading may come too early. Then the pod is told of again, after
// pauses that double, until a reading shows the end; once they would be longer than a second, the relists go on each second instead.
//
// Events wait in a set that can't overflow until the sync loop takes them, so none is lost however slow the loop is. Run is three
// goroutines: one relists, one listens to the runtime, one to the kernel. Refresh runs in its caller's, so that a pod whose reading
// hangs holds up nobody else. The package never acts upon a pod. PLEG.mu comes before any lock of Exits.
package pleg
