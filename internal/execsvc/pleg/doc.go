// Package pleg is the pod lifecycle event generator: it finds out what the runtime's pods are doing and says what changed.
//
// It owns the cache of pod states. The runtime's events say to which pod something happened; what happened is read, never believed.
// The relist is the authority behind them: each second, or each 30 s while events come. So an event that is lost, doubled or out of
// order costs time, and nothing else. A worker gets the last full reading for as long as nothing speaks against it (Current), and has
// the pod read again after each of its own actions (Refresh).
//
// Events wait in a set that can't overflow until the sync loop takes them, so none is lost however slow the loop is. Run is two
// goroutines: one relists, one listens. Refresh runs in its caller's, so that a pod whose reading hangs holds up nobody else. The
// package never acts upon a pod.
package pleg
