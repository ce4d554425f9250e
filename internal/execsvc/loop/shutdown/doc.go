// Package shutdown ends the pods of this node before the machine shuts down, as the kubelet does
// (pkg/kubelet/nodeshutdown): the graceful shutdown of the node.
//
// A Manager holds a lock of logind that delays a shutdown. When one is prepared, no pod is admitted any more, the pods
// end in groups by their priority, one group after the other, and the lock is closed. If the shutdown is cancelled, pods
// are admitted again.
//
// Which pods end when is pure (plan.go). follow.go asks logind; the delay that it grants is negotiated in delay.go; the
// state, and what follows from it, is in manager.go; the groups end in drain.go; record.go has the times of the last one.
//
// The Agent asks Admit before it admits a pod. Run is called once, with the pods. Its goroutine follows logind, and
// connects again when that is lost; a second one ends the pods while a shutdown is prepared. Both have ended when Run
// returns. Manager.mu guards the state; it is held during no call.
//
// The state never changes because logind doesn't answer: a shutdown lasts until logind says that there is none. After a
// restart without an answer, one that was recorded before counts for the rest of its time. Nothing
// waits for the API server for longer than reportTime, and nothing for a disk.
package shutdown
