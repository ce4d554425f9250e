package podctl

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/podsummary"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// changedPod is a pod of the source file, after a change.
func changedPod(t *testing.T, name, uid string, change func(*corev1.Pod)) *podconfigv1.Pod {
	t.Helper()
	pod := podctltest.Pod("default", name)
	pod.Annotations = map[string]string{podsummary.SeenAnnotation: uid, podsummary.HashAnnotation: uid, "owner": "me"}
	change(pod)
	m := podctltest.Desired(t, "file", pod)
	m.Ref.Uid = uid
	return m
}

// The effect of a diff on each pod, and the difference.
func TestDiffChanges(t *testing.T) {
	same := func(*corev1.Pod) {}
	image := func(p *corev1.Pod) { p.Spec.Containers[0].Image = "web:2" }
	label := func(p *corev1.Pod) { p.Labels = map[string]string{"tier": "\x1b[2J"} }
	op := func(op podconfigv1.PodOperation, pod *podconfigv1.Pod) *podconfigv1.PodUpdate {
		if op == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
			pod = &podconfigv1.Pod{Ref: pod.GetRef()}
		}
		return &podconfigv1.PodUpdate{Op: op, Source: "file", Pods: []*podconfigv1.Pod{pod}}
	}
	const add, update, remove = podconfigv1.PodOperation_POD_OPERATION_ADD, podconfigv1.PodOperation_POD_OPERATION_UPDATE,
		podconfigv1.PodOperation_POD_OPERATION_REMOVE
	n := newDiffNode(t, &podconfigv1.DiffManifestsResponse{Updates: []*podconfigv1.PodUpdate{
		op(remove, changedPod(t, "replaced", "r1", same)), op(add, changedPod(t, "replaced", "r2", image)),
		op(remove, changedPod(t, "stopped", "s1", same)),
		op(add, changedPod(t, "started", "n1", same)),
		op(update, changedPod(t, "relabeled", "l1", label)),
		op(update, changedPod(t, "reimaged", "i1", image)),
	}}, changedPod(t, "replaced", "r1", same), changedPod(t, "stopped", "s1", same), changedPod(t, "relabeled", "l1", same),
		changedPod(t, "reimaged", "i1", same))
	if code := n.run(t.Context(), "diff", n.path("manifests/web.yaml")); code != exitDiffers || n.stderr.String() != "" {
		t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
	}
	n.golden("diff-changes.table", n.stdout.String())

	n.stdout = newScreen()
	if code := n.run(t.Context(), "diff", n.path("manifests/web.yaml"), "-o", "json"); code != exitDiffers {
		t.Errorf("-o json: exit code %d, stderr:\n%s", code, n.stderr)
	}
	var doc diffDocument
	if err := json.Unmarshal([]byte(onlyChanges(t, n.stdout.String())), &doc); err != nil {
		t.Fatal(err)
	}
	restarts := map[string]bool{"replaced": true, "reimaged": true}
	if len(doc.Changes) != 5 {
		t.Errorf("%d pods change; want 5", len(doc.Changes))
	}
	for _, c := range doc.Changes {
		// All of a pod that starts or stops is shown.
		whole, gone := strings.Contains(c.Diff, "\n@@ -0,0 +1,"), strings.Contains(c.Diff, " +0,0 @@\n")
		if c.Restarts != restarts[c.Name] || c.Diff == "" || whole != (c.Effect == effectStarts) || gone != (c.Effect == effectStops) ||
			strings.Contains(c.Diff, podsummary.HashAnnotation) {
			t.Errorf("pod %s %s (restarts: %v), diff:\n%s", c.Name, c.Effect, c.Restarts, c.Diff)
		}
	}
}

// onlyChanges removes podconfigd's answer.
func onlyChanges(t *testing.T, text string) string {
	t.Helper()
	var whole map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		t.Fatal(err)
	}
	return `{"changes":` + string(whole["changes"]) + "}"
}
