// Package podexecapi serves podexecd's gRPC API: podexec.v1.PodExecService, the pods on this node.
//
// It reads the board, which the Agent writes, and changes nothing on the node except through commands of Exec, by the
// Agent's RestartPod, and by the images that PullImage and PruneImages have pulled and removed. One type decides which data a call may see: its
// view, which combines the caller's scope and role with the request's filter. It starts one goroutine for the input of
// each Exec, which ends with the call. A watcher is a position on the board, and nothing is sent under a lock. Close
// ends the streams.
package podexecapi
