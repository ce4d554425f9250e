package podctl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
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

// TestPodsWatch: a list, changes, a break after which the watch resumes, and a break after which podexecd has lost
// its state.
func TestPodsWatch(t *testing.T) {
	pending := func(name string) *podexecv1.ObservedPod {
		return podctltest.Observed(t, "default", name, &corev1.PodStatus{
			Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{podctltest.Waiting("web", "ContainerCreating", "")},
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

// The command line may name pods, in all namespaces or in those of -n.
func TestPodsChosen(t *testing.T) {
	for args, want := range map[string]string{
		"":                     "default/db default/web-node1 shop/web",
		"web":                  "default/web-node1 shop/web",
		"pod/web db":           "default/db default/web-node1 shop/web",
		"web -n shop":          "shop/web",
		"-n shop,default db":   "default/db",
		"web -n shop -A":       "default/web-node1 shop/web",
		"nothing -n shop":      "podctl: no pods found in namespace shop\n",
		"nothing -n shop,none": "podctl: no pods found in namespaces shop, none\n",
	} {
		n := newNode(t)
		n.podconfigd(&fakePodconfigd{})
		n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{
			runningPod(t, "default", "db"), runningPod(t, "default", "web-node1"), runningPod(t, "shop", "web"),
		}})
		if code := n.run(t.Context(), append([]string{"pods"}, strings.Fields(args)...)...); code != exitOK {
			t.Errorf("pods %s: exit code %d, stderr %q", args, code, n.stderr)
		}
		var got []string
		for line := range strings.Lines(n.stdout.String()) {
			if fields := strings.Fields(line); fields[0] != "NAMESPACE" {
				got = append(got, fields[0]+"/"+fields[1])
			}
		}
		if shown := strings.Join(got, " ") + n.stderr.String(); shown != want {
			t.Errorf("pods %s shows %q; want %q", args, shown, want)
		}
	}
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

// Two pods of one name, of which one replaces the other, have different UIDs in the lines.
func TestPodsWatchTwoIncarnations(t *testing.T) {
	n := newNode(t)
	old, young := runningPod(t, "default", "web"), runningPod(t, "default", "web")
	waits := podctltest.Observed(t, "default", "web", &corev1.PodStatus{})
	old.Ref.Uid, young.Ref.Uid, waits.Ref.Uid = "11111111-old", "22222222-new", "22222222-new"
	n.busy(&busyPodexecd{scripts: [][]*podexecv1.WatchPodStatusResponse{
		{isNow("", old), isSynced("t1", false), isNow("t2", waits), isNow("t3", young), isGone("t4", old)},
	}})
	interrupt := n.start("pods", "-w")
	n.stdout.await(t, "Removed")
	if code := interrupt(); code != exitOK {
		t.Errorf("exit code %d: %s", code, n.stderr)
	}
	var got []string
	for line := range strings.Lines(n.stdout.String()) {
		fields := strings.Fields(line)
		got = append(got, fields[3]+" "+fields[len(fields)-1])
	}
	if diff := cmp.Diff([]string{"STATUS UID", "Running 11111111…", "NotStarted 22222222…", "Running 22222222…", "Removed 11111111…"}, got); diff != "" {
		t.Errorf("the lines' status and UID (-want +got):\n%s", diff)
	}
}
