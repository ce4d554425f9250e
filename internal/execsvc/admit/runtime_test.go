package admit

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// A runtime that tells of no handlers gets pods of any class, and none of them has what a handler would have to tell of.
func TestCheckWithARuntimeThatTellsNothing(t *testing.T) {
	node, pod := able(), fullPod()
	node.Runtime.Handlers = nil
	pod.Spec.RuntimeClassName, pod.Spec.HostUsers, pod.Spec.Containers[0].VolumeMounts = ptr.To("gvisor"), nil, nil
	if diff := cmp.Diff(Verdict{}, Check(pod, node, nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	pod.Spec.HostUsers = ptr.To(false)
	wantRefusal(t, "hostUsers", Check(pod, node, nil), UnsupportedFeature, "spec.hostUsers: ", false)
}

// By the API server's word a class is any handler. While that isn't known, or there is no such class or handler, a pod isn't refused: it waits.
func TestCheckWithTheClustersClasses(t *testing.T) {
	node, pod := able(), fullPod()
	node.Runtime.Handlers["runsc"] = Handler{}
	classes := map[string]string{"sandboxed": "runsc", "default": "", "elsewhere": "kata-qemu"}
	node.Handler = func(p *v1.Pod) (string, error) {
		if handler, ok := classes[*p.Spec.RuntimeClassName]; ok {
			return handler, nil
		}
		return "", errors.New("not read yet")
	}
	for _, class := range []string{"default", "unknown", "elsewhere"} {
		pod.Spec.RuntimeClassName = ptr.To(class)
		if diff := cmp.Diff(Verdict{}, Check(pod, node, nil)); diff != "" {
			t.Errorf("class %s: verdict (-want +got):\n%s", class, diff)
		}
	}
	pod.Spec.RuntimeClassName, pod.Spec.Containers[0].VolumeMounts = ptr.To("sandboxed"), nil
	wantRefusal(t, "sandboxed", Check(pod, node, nil), UnsupportedFeature,
		"spec.hostUsers: can't set `spec.hostUsers: false`, RuntimeClass handler \"runsc\" does not support user namespaces", false)
}
