package apiobjects

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newClass(name, handler string) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
}

func ofClass(pod *v1.Pod, class string) *v1.Pod {
	pod.Spec.RuntimeClassName = &class
	return pod
}

// A class is the API server's. A pod waits for a missing one, except a static pod, for which the class's name is the
// handler.
func TestHandler(t *testing.T) {
	in(t, func(h *harness) {
		check := func(pod *v1.Pod, want, fault string) {
			t.Helper()
			got, err := h.Handler(pod)
			if got != want || (err == nil) != (fault == "") || err != nil && err.Error() != fault {
				t.Errorf("pod %s: %q, %v; want %q, %s", pod.Name, got, err, want, fault)
			}
		}
		sandboxed, later := ofClass(podOf("a", "api"), "sandboxed"), ofClass(podOf("b", "api"), "later")
		check(podOf("plain", "api"), "", "")
		check(ofClass(podOf("empty", "api"), ""), "", "")
		check(sandboxed, "", "RuntimeClasses have not yet been read at least once")
		check(ofClass(podOf("static", "file"), "sandboxed"), "sandboxed", "")
		h.run()
		h.wantWoken("a", "static")
		check(sandboxed, "runsc", "")
		check(ofClass(podOf("static", "file"), "sandboxed"), "runsc", "")
		check(ofClass(podOf("static", "file"), "kata"), "kata", "")
		check(later, "", `runtimeclass.node.k8s.io "later" not found`)
		h.Drop("static")

		must[*nodev1.RuntimeClass](t)(h.api.NodeV1().RuntimeClasses().Create(t.Context(), newClass("later", "kata"), metav1.CreateOptions{}))
		h.wantWoken("b")
		check(later, "kata", "")
	}, newClass("sandboxed", "runsc"))
}
