package execsvc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/simruntime/simnode"
)

// While a postStart hook runs, no container of the new pod is shown running or probed, as with the kubelet, although
// relists show the pod and a probe wakes the sync loop.
func TestPostStartDelaysReadiness(t *testing.T) {
	var begun atomic.Bool
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun.Store(true)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t)
	// Without events, relists follow each other at once.
	n.SetFault(func(_ context.Context, method string) error {
		if method == "GetContainerEvents" {
			return status.Error(codes.Unimplemented, "no events")
		}
		return nil
	})
	l := n.start()
	pod := newPod("a", "web", "file")
	pod.Spec.Containers = append(pod.Spec.Containers, simnode.Container("hooked"))
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/sample", "exit", "0"}}}}
	pod.Spec.Containers[1].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{
		HTTPGet: &v1.HTTPGetAction{Host: at.Hostname(), Port: intstr.Parse(at.Port())},
	}}
	l.deliver(ops(change(client.Add, true, pod)))
	eventually(t, "the hook begins", begun.Load)
	eventually(t, "a relist shows the container", func() bool {
		has := l.pleg.Get("a")
		if has == nil {
			return false
		}
		c := has.Latest("hooked")
		return c != nil && c.State == observed.Running
	})
	l.HandleProbes([]types.UID{"a"})
	p, _ := l.shown("a")
	for _, c := range p.Status.ContainerStatuses {
		if c.Ready || c.State.Running != nil {
			t.Errorf("while the hook runs, container %s is shown as %+v, ready %v", c.Name, c.State, c.Ready)
		}
	}
	if got := l.probes.Probes("a"); len(got) > 0 {
		t.Errorf("while the hook runs, containers are probed: %+v", got)
	}
	close(release)
	l.await("a", "is ready", func(p podview.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodReady {
				return c.Status == v1.ConditionTrue
			}
		}
		return false
	})
}
