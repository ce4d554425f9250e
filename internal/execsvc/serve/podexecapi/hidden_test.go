package podexecapi

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// says is the pod with a message of its container.
func says(p podview.Pod, message string) podview.Pod {
	p.Status = &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
		Name: "main", LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: message}},
	}}}
	return p
}

// TestHiddenChanges: a pod isn't sent again to an inspector if only hidden parts have changed,
// also in a resumed stream. A consumer receives it.
func TestHiddenChanges(t *testing.T) {
	for role, visible := range map[access.Role]bool{access.Consumer: true, access.Inspector: false} {
		p := says(pod("default", "a", "1"), "one")
		s := serve(p)
		w := startWatch(t, s, access.Caller{Role: role}, nil)
		token := w.want("a is Running", "synced, resumed false")
		s.cfg.Board.Set(says(p, "two"))
		if visible {
			w.want("a is Running")
		}
		secret := says(p, "two")
		secret.Object = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"secret": "x"}}}
		s.cfg.Board.Set(secret)
		if visible {
			w.want("a is Running")
		}
		s.cfg.Board.Set(become(p, v1.PodFailed))
		w.want("a is Failed")
		s.cfg.Board.Remove(p.UID)
		w.want("a is gone")
		s.cfg.Board.Set(become(p, v1.PodFailed))
		w.want("a is Failed")
		w.end()

		back := startWatch(t, s, access.Caller{Role: role}, &podexecv1.WatchPodStatusRequest{ResumeToken: token})
		back.want("a is Failed")
		if visible {
			back.want("synced, resumed true")
		} else {
			back.want("synced, resumed false")
		}
		back.end()
	}
}

// TestInspectorsStatus: the status is redacted in every format, by the table that podconfigd goes by.
func TestInspectorsStatus(t *testing.T) {
	p := says(pod("default", "a", "1"), "hunter2")
	p.Status.ContainerStatuses[0].AllocatedResourcesStatus = []v1.ResourceStatus{{
		Name: "gpu", Resources: []v1.ResourceHealth{{ResourceID: "0", Message: new(string)}},
	}}
	*p.Status.ContainerStatuses[0].AllocatedResourcesStatus[0].Resources[0].Message = "hunter2"
	s := serve(p)
	for name, number := range podconfigv1.PodFormat_value {
		for role, want := range map[access.Role]bool{access.Consumer: number != int32(podconfigv1.PodFormat_POD_FORMAT_REFERENCE), access.Inspector: false} {
			resp, err := s.ListPods(as(t, access.Caller{Role: role}), &podexecv1.ListPodsRequest{Format: podconfigv1.PodFormat(number)})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(resp.String(), "hunter2"); got != want {
				t.Errorf("%s, %s: the answer holds the secret: %v; want %v", name, role, got, want)
			}
		}
	}
}
