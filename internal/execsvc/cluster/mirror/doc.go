// Package mirror keeps a mirror pod at the API server for each static pod of this node, so that users see it there.
// It is the kubelet's mirror client (pkg/kubelet/pod), but the pods never wait for it.
//
// A Keeper compares the desired static pods with the mirror pods of the stream, when it is woken and every two
// seconds. It creates a missing mirror pod. It removes and recreates one that mirrors another pod or an older
// version, belongs to an earlier Node, is being deleted, or has ended though the pod has started again. It removes
// one whose static pod is gone, once that has ended. One without a static pod that existed before podexecd started
// is removed only when all sources are ready. If a pod can't have a mirror pod, the log says why, once.
//
// Run has two goroutines: one compares, and one sends the requests, one after the other; only that one uses the
// entries. Failed requests are retried with growing pauses. Package apistatus posts the mirror pods' statuses.
package mirror
