// Package apistatus posts the statuses of pods to the API server, and completes their deletion. It is the part of
// the kubelet's status manager (pkg/kubelet/status) that calls the server.
//
// A Writer reads the board. The status that the server should show is a pure function (merge.go, plan.go) of the pod
// on the board and of the server's copy; if the two differ, the status is patched. For a static pod the copy is its
// mirror pod, if that mirrors this version of the pod. So a status that the server already has costs no request,
// after a restart too, and of changes that come faster than they can be sent only the last one is sent. No pod is
// read from the server: its copy is the newer of the stream's pod and the last patch's response. If the server has
// something else (a request was applied though its response was lost, for example), a patch may contain too much or
// too little; the next copy in the stream shows that, and another patch corrects it.
//
// Parts that other clients own stay: conditions that aren't the node's, and the claims of devices. A pod that may
// still run is never reported as ended, and one that ended at the server never starts again. A pod that is being
// deleted is removed once it is torn down and its final status is at the server.
//
// Run has one goroutine that follows the board and a few that send. Each pod has at most one request under way, so
// none overtakes another. A refused request is retried with pauses of that pod. While the server doesn't answer at
// all, one pod at a time sends requests, and the others follow when one succeeds. Nothing waits for this package.
// Writer.mu guards the state of the pods; it is held during neither requests nor logging.
package apistatus
