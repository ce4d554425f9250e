package podexecd

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The mirror pod stays while a former version of the static pod terminates, or was found running after a restart.
func TestFormerVersionIsEnding(t *testing.T) {
	const (
		unclaimed   = podexecv1.WorkerState_WORKER_STATE_UNSPECIFIED
		waiting     = podexecv1.WorkerState_WORKER_STATE_WAITING
		terminating = podexecv1.WorkerState_WORKER_STATE_TERMINATING
		finished    = podexecv1.WorkerState_WORKER_STATE_FINISHED
	)
	object := func(source string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{podmeta.SourceAnnotation: source}}}
	}
	running, failed := &v1.PodStatus{Phase: v1.PodRunning}, &v1.PodStatus{Phase: v1.PodFailed}
	for name, c := range map[string]struct {
		pod  podview.Pod
		want bool
	}{
		"terminating":                     {podview.Pod{State: terminating, Object: object("file")}, true},
		"terminating, found running":      {podview.Pod{State: terminating}, true},
		"terminating, of the API server":  {podview.Pod{State: terminating, Object: object("api")}, false},
		"finished":                        {podview.Pod{State: finished, Object: object("file"), Status: running}, false},
		"the desired version":             {podview.Pod{State: waiting, Desired: true, Object: object("file")}, false},
		"desired, without a worker":       {podview.Pod{State: unclaimed, Desired: true, Object: object("file"), Status: running}, false},
		"found running, not claimed":      {podview.Pod{State: unclaimed, Status: running}, true},
		"found dead, not claimed":         {podview.Pod{State: unclaimed}, false},
		"found, not claimed, and failed":  {podview.Pod{State: unclaimed, Status: failed}, false},
		"of another name":                 {podview.Pod{Name: "other", State: unclaimed, Status: running}, false},
		"of another namespace":            {podview.Pod{Namespace: "other", State: unclaimed, Status: running}, false},
		"waiting for its name, undesired": {podview.Pod{State: waiting, Object: object("file")}, true},
	} {
		p := c.pod
		p.UID = "old"
		if p.Name == "" {
			p.Name = "web-n1"
		}
		if p.Namespace == "" {
			p.Namespace = "default"
		}
		b := podview.New()
		b.Set(p)
		b.Set(podview.Pod{UID: "new", Namespace: "default", Name: "web-n1", Desired: true, State: waiting, Object: object("file")})
		if got := ending(b, "default", "web-n1"); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}
