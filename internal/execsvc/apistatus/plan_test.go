package apistatus

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/board"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// When a pod may still run, by its worker and its containers: then it isn't told to have ended.
func TestMayRun(t *testing.T) {
	for name, tt := range map[string]struct {
		state  podexecv1.WorkerState
		status v1.PodStatus
		ends   bool
	}{
		"before it is torn down":     {podexecv1.WorkerState_WORKER_STATE_TERMINATING, v1.PodStatus{ContainerStatuses: containers(exited(0))}, false},
		"as its last container ends": {podexecv1.WorkerState_WORKER_STATE_SYNCING, v1.PodStatus{ContainerStatuses: containers(exited(0))}, false},
		"torn down":                  {podexecv1.WorkerState_WORKER_STATE_TERMINATED, v1.PodStatus{ContainerStatuses: containers(exited(0))}, true},
		"finished":                   {podexecv1.WorkerState_WORKER_STATE_FINISHED, v1.PodStatus{ContainerStatuses: containers(exited(0))}, true},
		"rejected, and offered again now and then": {podexecv1.WorkerState_WORKER_STATE_SYNCING, v1.PodStatus{Message: "Pod was rejected: no room"}, true},
		"rejected, and something runs": {
			podexecv1.WorkerState_WORKER_STATE_SYNCING, v1.PodStatus{Message: "Pod was rejected: no room", ContainerStatuses: containers(running1())}, false,
		},
		"a debugger runs": {
			podexecv1.WorkerState_WORKER_STATE_FINISHED, v1.PodStatus{EphemeralContainerStatuses: containers(running1())}, false,
		},
	} {
		tt.status.Phase = v1.PodFailed
		tt.status.Conditions = []v1.PodCondition{cond(v1.PodScheduled, v1.ConditionTrue, "", 1)}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{sourceAnnotation: apiSource}}, Status: v1.PodStatus{Phase: v1.PodRunning}}
		got := plan(board.Pod{State: tt.state, Status: &tt.status}, pod, pod, t0)
		if got == nil || (got.status.Phase == v1.PodFailed) != tt.ends {
			t.Errorf("%s: told is %+v; want an end: %v", name, got, tt.ends)
		}
	}
}

// A pod that comes from an API server by way of other podconfigds is the server's own.
func TestFromAPI(t *testing.T) {
	for path, want := range map[string]bool{"": false, "n(12345678)/file": false, "n(12345678)/relay,m(23456789)/api": true} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{sourceAnnotation: "relay", relayPathAnnotation: path}}}
		if got := FromAPI(pod); got != want {
			t.Errorf("%q: from the API server is %v; want %v", path, got, want)
		}
	}
}
