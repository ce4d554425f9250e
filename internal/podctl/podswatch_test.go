package podctl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func isNow(token string, p *podexecv1.ObservedPod) *podexecv1.WatchPodStatusResponse {
	return &podexecv1.WatchPodStatusResponse{Event: &podexecv1.WatchPodStatusResponse_Pod{Pod: p}, ResumeToken: token}
}

func isGone(token string, p *podexecv1.ObservedPod) *podexecv1.WatchPodStatusResponse {
	return &podexecv1.WatchPodStatusResponse{Event: &podexecv1.WatchPodStatusResponse_Removed{Removed: p.GetRef()}, ResumeToken: token}
}

func isSynced(token string, resumed bool) *podexecv1.WatchPodStatusResponse {
	return &podexecv1.WatchPodStatusResponse{
		Event: &podexecv1.WatchPodStatusResponse_Synced{Synced: &podexecv1.StatusSynced{Resumed: resumed}}, ResumeToken: token,
	}
}

// TestPodsWatch: a list, changes, a break that is resumed, and one after which podexecd has forgotten what was.
func TestPodsWatch(t *testing.T) {
	pending := func(name string) *podexecv1.ObservedPod {
		return observedPod(t, "default", name, &corev1.PodStatus{
			Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waiting("web", "ContainerCreating", "")},
		})
	}
	a, b, c := runningPod(t, "default", "a"), runningPod(t, "default", "b"), runningPod(t, "default", "c")
	for _, output := range []string{"table", "wide", "json"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			fake := &busyPodexecd{scripts: [][]*podexecv1.WatchPodStatusResponse{
				{isNow("", pending("b")), isNow("", a), isSynced("t1", false), isNow("t2", b), isNow("", pending("c"))}, // the last one is lost
				{isNow("", c), isSynced("t3", true), isGone("t4", a), isNow("t5", c)},
				{isNow("", c), isNow("", runningPod(t, "default", "d")), isSynced("u1", false)},
			}}
			n.busy(fake)
			interrupt := n.start("pods", "-w", "-o", output)
			n.stdout.await(t, uidOfShown(output, "d"))
			if code := interrupt(); code != exitOK {
				t.Errorf("exit code %d: %s", code, n.stderr)
			}
			n.golden("pods-watch."+output, n.stdout.String())
			if diff := cmp.Diff([]string{"", "t2", "t5"}, fake.tokens); diff != "" {
				t.Errorf("resumed after (-want +got):\n%s", diff)
			}
			if got := strings.Count(n.stderr.String(), "connected to podexecd again"); got != 2 {
				t.Errorf("stderr tells of %d reconnections:\n%s", got, n.stderr)
			}
		})
	}
}

// uidOfShown is what shows that the pod has been printed.
func uidOfShown(output, name string) string {
	if output == "json" {
		return `"name":"` + name + `"`
	}
	return "default     " + name
}

func TestPodsWatchFails(t *testing.T) {
	n := newNode(t)
	if code := n.run(t.Context(), "pods", "-w"); code != exitFailed || !strings.Contains(n.stderr.String(), "can't reach podexecd") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
	n = newNode(t)
	n.podexecd(&fakePodexecd{})
	if code := n.run(t.Context(), "pods", "-w"); code != exitFailed || !strings.Contains(n.stderr.String(), "doesn't know this call") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}
