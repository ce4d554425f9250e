package execsvc

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A pod whose ConfigMap hasn't arrived yet waits without a warning: objects are streamed separately.
func TestPodWaitsForObjects(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	pod.Spec.Volumes = []v1.Volume{{Name: "c", VolumeSource: v1.VolumeSource{
		ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}}}}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "c", MountPath: "/c"}}
	l.deliver(ops(change(client.Add, true, pod)))
	l.await("a", "waits", func(p podview.Pod) bool {
		if p.Err == nil || p.Status == nil || len(p.Status.ContainerStatuses) != 1 {
			return false
		}
		w := p.Status.ContainerStatuses[0].State.Waiting
		return w != nil && w.Reason == "ContainerCreating"
	})
	all, _, _ := l.events.After(0)
	for _, e := range all {
		if e.Type == events.Warning {
			t.Errorf("event %s: %s", e.Reason, e.Message)
		}
	}
	if res, err := l.SyncPod(t.Context(), pod); !res.Transient || err == nil {
		t.Errorf("%+v, %v; want an error that is over in a moment, mostly", res, err)
	}
}

// An error is transient if its only causes are objects that haven't arrived.
func TestTransient(t *testing.T) {
	coming, wrong := fmt.Errorf("configmap a: %w", objects.ErrUnknown), errors.New("disk on fire")
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {wrong, false}, {coming, true}, {errors.Join(errors.Join(coming, coming)), true},
		{errors.Join(coming, wrong), false}, {errors.Join(errors.Join(wrong, coming)), false},
	} {
		if got := transient(tt.err); got != tt.want {
			t.Errorf("transient(%v) is %v", tt.err, got)
		}
	}
}
