// Package mirror keeps a mirror pod at the API server for each static pod of this node, so that users see it there: what the kubelet's
// mirror client does (pkg/kubelet/pod), but beside the pods' lives and never in their way.
//
// A Keeper compares the desired static pods with the mirror pods that the stream told of, each time that it is woken, and every two
// seconds. A mirror pod that is missing is made; one that mirrors another pod or an older version, belongs to an earlier Node, is being
// deleted, or has ended though the pod has begun anew, is removed and made again; one whose static pod is gone is removed when that has ended. One without a static pod that was there before this life of
// podexecd is removed only when all sources have spoken. A pod that can't have a mirror pod simply has none, and the log says why, once.
//
// Run's goroutines are one that looks and one that makes the requests, one after the other; only that one touches what is remembered. What
// failed is tried again with growing pauses. The mirror pods' statuses are package apistatus's.
package mirror
