package apistatus

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// A pod may still run, by its worker and its containers: then it isn't reported as ended.
func TestMayRun(t *testing.T) {
	none := []v1.PodCondition{}
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
		"rejected, without conditions":             {podexecv1.WorkerState_WORKER_STATE_SYNCING, v1.PodStatus{Message: "Pod was rejected: no", Conditions: none}, true},
		"rejected, and something runs": {
			podexecv1.WorkerState_WORKER_STATE_SYNCING, v1.PodStatus{Message: "Pod was rejected: no room", ContainerStatuses: containers(running1())}, false,
		},
		"a debugger runs": {
			podexecv1.WorkerState_WORKER_STATE_FINISHED, v1.PodStatus{EphemeralContainerStatuses: containers(running1())}, false,
		},
	} {
		tt.status.Phase = v1.PodFailed
		if tt.status.Conditions == nil {
			tt.status.Conditions = []v1.PodCondition{cond(v1.PodScheduled, v1.ConditionTrue, "", 1)}
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{podmeta.SourceAnnotation: "api"}}, Status: v1.PodStatus{Phase: v1.PodRunning}}
		got := plan(podview.Pod{State: tt.state, Status: &tt.status}, pod, pod, t0)
		if got == nil || (got.status.Phase == v1.PodFailed) != tt.ends {
			t.Errorf("%s: told is %+v; want an end: %v", name, got, tt.ends)
		}
	}
}
