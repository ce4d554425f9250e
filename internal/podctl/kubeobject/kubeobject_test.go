package kubeobject_test

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/kubeobject"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/podsummary"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// A pod has the desired content and the observed status; each half may be missing.
func TestPod(t *testing.T) {
	content := podctltest.Pod("default", "web")
	content.Status.Phase = corev1.PodPending
	desired := podctltest.Desired(t, "file", content)
	observed := podctltest.Observed(t, "default", "web", &corev1.PodStatus{Phase: corev1.PodRunning})
	for name, tc := range map[string]struct {
		desired  []*podconfigv1.Pod
		observed []*podexecv1.ObservedPod
		image    string
		phase    corev1.PodPhase
	}{
		"both":     {[]*podconfigv1.Pod{desired}, []*podexecv1.ObservedPod{observed}, "localhost/podstream-sample:dev", corev1.PodRunning},
		"desired":  {[]*podconfigv1.Pod{desired}, nil, "localhost/podstream-sample:dev", corev1.PodPending},
		"observed": {nil, []*podexecv1.ObservedPod{observed}, "", corev1.PodRunning},
	} {
		pairs, errs := podsummary.Join(tc.desired, tc.observed)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		pod := kubeobject.Pod(pairs[0])
		image := ""
		if len(pod.Spec.Containers) > 0 {
			image = pod.Spec.Containers[0].Image
		}
		if pod.Kind != "Pod" || pod.APIVersion != "v1" || pod.Name != "web" || pod.Namespace != "default" || string(pod.UID) != podctltest.UID("web") ||
			image != tc.image || pod.Status.Phase != tc.phase {
			t.Errorf("%s: %+v", name, pod)
		}
		if fields := kubeobject.PodFields(pod); fields["status.phase"] != string(tc.phase) || fields["metadata.name"] != "web" {
			t.Errorf("%s: fields %v", name, fields)
		}
	}
}

func TestEvent(t *testing.T) {
	e := &podexecv1.PodEvent{
		Ref: &podconfigv1.PodRef{Namespace: "default", Name: "web", Uid: "u"}, Container: "app", Type: "Warning", Reason: "BackOff", Message: "m",
		Count: 3, FirstTime: podctltest.Before(time.Hour), LastTime: podctltest.Before(time.Minute),
	}
	text, err := json.Marshal(kubeobject.NewList([]*corev1.Event{kubeobject.Event(e)}))
	want := `{"apiVersion":"v1","kind":"List","metadata":{},"items":[{"kind":"Event","apiVersion":"v1","metadata":{"namespace":"default"},` +
		`"involvedObject":{"kind":"Pod","namespace":"default","name":"web","uid":"u","apiVersion":"v1","fieldPath":"spec.containers{app}"},` +
		`"reason":"BackOff","message":"m","source":{"component":"kubelet"},"firstTimestamp":"2026-03-01T11:00:01Z","lastTimestamp":"2026-03-01T11:59:01Z",` +
		`"count":3,"type":"Warning","eventTime":null,"reportingComponent":"","reportingInstance":""}]}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	if fields := kubeobject.EventFields(e); fields["involvedObject.name"] != "web" || fields["type"] != "Warning" {
		t.Errorf("fields %v", fields)
	}
}
