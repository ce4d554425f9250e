// Package service is the gRPC face of podexecd: podexec.v1.PodExecService, what is on this node.
//
// It reads the board, which the Agent writes, and changes nothing on the node but by what callers run with Exec. What a call may see is
// decided in one place: its view, which joins the caller's scope and role with the request's filter. It starts no goroutines of its own
// but one at a time for the input of each Exec, which ends with the call; a watcher is a position on the board, and nothing of it is sent under a
// lock. Close ends the streams.
package service
