// Package apistatus tells the API server how its pods are, and completes their deletion: the part of the kubelet's status manager
// (pkg/kubelet/status) that talks to the server.
//
// A Writer reads the board. What the server should show of a pod is a pure function (merge.go, plan.go) of the pod as the board has it and
// of the server's copy; whenever the two differ, the status is patched. Of a static pod it is its mirror pod's copy, as long as that
// mirrors this very pod. So a status that was told already costs nothing, after a restart too, and of changes that come faster than they
// can be sent the last one counts. No pod is ever read from the server: its copy is the newer one of what the stream brought and what the
// last patch was answered with. If the server has something else by now (a request went through though its answer was lost, say), a patch
// may tell too much or too little; that shows in the next copy that is streamed, and is mended then.
//
// What others say of a pod stays: conditions that aren't the node's, and the claims of its devices. A pod that may still run isn't told to
// have ended, and one that the server knows to have ended never begins again. A pod that is being deleted goes once all of it is torn down
// and its end stands at the server.
//
// Run's goroutines are one that follows the board and a few that send; for each pod only one request is under way, so none overtakes
// another. A request that is refused is made again with pauses of the pod's own. While the server doesn't answer at all, one pod at a time
// tries for all, and they follow when one gets through. Nothing waits for any of this. Writer.mu guards what is known of the pods; neither
// requests nor log lines are made under it.
package apistatus
