// Package podexecapi serves podexecd's gRPC API: podexec.v1.PodExecService, the pods on this node.
//
// It reads the board, which the Agent writes, and changes nothing on the node except through what callers do in
// containers, by the Agent's RestartPod, by the images that PullImage and PruneImages have pulled and removed, and by the
// volumes of static pods' claims that RemoveVolume and ImportVolume change. Exec,
// Attach and Copy share a session; PortForward carries connections. Copy runs tar in the container, and kills a tar whose
// caller has gone. One type decides which data a call may see: its view, which combines the caller's scope and role with
// the request's filter.
//
// It starts one goroutine for the input of each of these calls, which ends with the call, and one that waits for the
// end of a forwarded pod. They are bounded in number, for each caller and in all (slots). A watcher is a position on
// the board, and nothing is sent under a lock. Close ends the streams.
package podexecapi
