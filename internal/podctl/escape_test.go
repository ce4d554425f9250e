package podctl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// In every format, every command escapes text of a pod or a daemon that a terminal would act on.
func TestHostileContent(t *testing.T) {
	pod := podctltest.Pod("default", "x"+podctltest.Hostile)
	pod.Spec.Containers[0].Image = podctltest.Hostile
	pod.Annotations["note"] = podctltest.Hostile
	desired := podctltest.Desired(t, "file"+podctltest.Hostile, pod)
	observed := podctltest.Observed(t, "default", "x"+podctltest.Hostile, &corev1.PodStatus{Phase: corev1.PodPhase(podctltest.Hostile), Message: podctltest.Hostile,
		ContainerStatuses: []corev1.ContainerStatus{podctltest.Waiting("web"+podctltest.Hostile, podctltest.Hostile, podctltest.Hostile)}})
	observed.LastError = podctltest.Hostile
	// Goes to stderr, with the pod's name.
	undecodable := &podexecv1.ObservedPod{Ref: &podconfigv1.PodRef{Namespace: podctltest.Hostile, Name: podctltest.Hostile, Uid: "u" + podctltest.Hostile},
		Status: &podexecv1.ObservedPod_Protobuf{Protobuf: []byte("not a status")}}
	json := jsonPod(t, "file", podctltest.Hostile, podctltest.Hostile)

	synced := syncedAt(4)
	synced.GetSynced().Sources = []*podconfigv1.SourceReadiness{{Name: podctltest.Hostile}}
	for _, command := range []string{"pods", "sources", "watch"} {
		for _, output := range []string{"table", "wide", "json", "yaml"} {
			n := newNode(t)
			n.podconfigd(&fakePodconfigd{
				pods: []*podconfigv1.Pod{desired},
				sources: []*podconfigv1.Source{{Name: podctltest.Hostile, Location: podctltest.Hostile, LastError: podctltest.Hostile,
					Findings: []*podconfigv1.Finding{{Origin: podctltest.Hostile, Field: podctltest.Hostile, Message: podctltest.Hostile}}}},
				scripts: [][]*message{{op(0, opAdd, desired, json), sourceOp(0, opAdd, podctltest.Hostile, true), synced}},
			})
			n.podexecd(&fakePodexecd{pods: []*podexecv1.ObservedPod{observed, undecodable}})
			if command == "watch" {
				interrupt := n.start(command, "-o", output)
				n.stdout.await(t, map[string]string{"json": `"synced"`, "yaml": "synced"}[output])
				n.stdout.await(t, map[string]string{"table": "SYNCED", "wide": "SYNCED"}[output])
				interrupt()
			} else {
				n.run(t.Context(), command, "-o", output)
			}
			if n.stdout.String() == "" {
				t.Errorf("%s -o %s printed nothing: %s", command, output, n.stderr)
			}
			podctltest.CheckHarmless(t, command+" -o "+output, n.stdout.String())
			podctltest.CheckHarmless(t, command+" -o "+output+" on stderr", n.stderr.String())
			if got := n.stdout.String(); strings.HasPrefix(got, "next") || strings.Contains(got, "\nnext") {
				t.Errorf("%s -o %s starts a line with what a pod says:\n%s", command, output, got)
			}
		}
	}
}
