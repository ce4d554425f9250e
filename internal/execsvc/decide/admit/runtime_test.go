package admit

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// If the runtime reports no handlers, pods of any class are admitted, and have none of a handler's features.
func TestCheckWithRuntimeWithoutHandlers(t *testing.T) {
	node, pod := able(), fullPod()
	node.Runtime.Handlers = nil
	pod.Spec.RuntimeClassName, pod.Spec.HostUsers, pod.Spec.Containers[0].VolumeMounts = ptr.To("gvisor"), nil, nil
	if diff := cmp.Diff(Verdict{}, Check(pod, node, nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	pod.Spec.HostUsers = ptr.To(false)
	wantLack(t, "hostUsers", Check(pod, node, nil), Lack{Scope: NewSandbox, Reason: events.FailedCreatePodSandbox, Message: "spec.hostUsers: "})
}

// The API server maps a class to a handler. If the class or the handler is unknown, the pod isn't rejected: it waits.
func TestCheckWithRuntimeClassesOfAPIServer(t *testing.T) {
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
	wantLack(t, "sandboxed", Check(pod, node, nil), Lack{
		Scope: NewSandbox, Reason: events.FailedCreatePodSandbox,
		Message: "spec.hostUsers: can't set `spec.hostUsers: false`, RuntimeClass handler \"runsc\" does not support user namespaces",
	})
}

// While the runtime doesn't answer, a newer one may be about to replace it: a pod that needs a missing feature waits.
func TestCheckWithSilentRuntime(t *testing.T) {
	node, pod := able(), fullPod()
	node.Runtime.SupplementalGroupsPolicy, node.Runtime.Silent = false, true
	v := Check(pod, node, nil)
	wantLack(t, "silent", v, Lack{
		Scope: NewSandbox, Reason: events.FailedCreatePodSandbox, Message: "spec.securityContext.supplementalGroupsPolicy: the container runtime doesn't answer",
	})
	if len(v.Rejected) > 0 || v.ByRuntime() {
		t.Errorf("it is rejected for %+v", v.Rejected)
	}
	node.Runtime.Silent = false
	if v = Check(pod, node, nil); !v.ByRuntime() {
		t.Errorf("%+v; want it rejected because of the runtime", v)
	}
	node.Runtime.SupplementalGroupsPolicy, node.Runtime.Silent = true, true
	if diff := cmp.Diff(Verdict{}, Check(pod, node, nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// Whether read-only mounts are recursive depends on the handler of the pod's class.
func TestRecursiveReadOnlyOfThePodsHandler(t *testing.T) {
	node := able()
	node.Runtime.Handlers["runsc"] = Handler{}
	for class, want := range map[string]bool{"": true, "runsc": false, "elsewhere": false} {
		pod := &v1.Pod{Spec: v1.PodSpec{RuntimeClassName: ptr.To(class)}}
		if got := node.RecursiveReadOnly(pod); got != want {
			t.Errorf("class %q: %t", class, got)
		}
	}
	node.Handler = func(p *v1.Pod) (string, error) {
		if *p.Spec.RuntimeClassName == "unread" {
			return "", errors.New("not read yet")
		}
		return *p.Spec.RuntimeClassName + "sc", nil
	}
	node.Runtime.Handlers["goodsc"] = Handler{RecursiveReadOnlyMounts: true}
	for class, want := range map[string]bool{"good": true, "run": false, "unread": false} {
		pod := &v1.Pod{Spec: v1.PodSpec{RuntimeClassName: ptr.To(class)}}
		if got := node.RecursiveReadOnly(pod); got != want {
			t.Errorf("the API server's class %q: %t", class, got)
		}
	}
}
