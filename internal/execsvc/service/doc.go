// Package service is the gRPC face of podexecd: podexec.v1.PodExecService, what is on this node.
//
// It reads what the Agent shows through a function and changes nothing. It runs no goroutines. WatchPodStatus answers
// UNIMPLEMENTED until a later version.
package service
