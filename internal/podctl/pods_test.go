package podctl

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/podsummary"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// examples are pods in every state, some on one side only. It takes each fake more than one page to list them.
func examples(t *testing.T) (*fakePodconfigd, *fakePodexecd) {
	crashing := podctltest.Waiting("web", "CrashLoopBackOff", "back-off 5m0s restarting failed container")
	crashing.RestartCount = 4
	crashing.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 1, FinishedAt: metav1.NewTime(podctltest.Noon.Add(-90 * time.Second))}
	up := &corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.7", ContainerStatuses: []corev1.ContainerStatus{podctltest.Running("web")}}

	deleted := podctltest.Pod("shop", "deleted")
	deleted.DeletionTimestamp = &metav1.Time{Time: podctltest.Noon}
	mirror := podctltest.Pod("shop", "web")
	mirror.Annotations[podsummary.MirrorAnnotation] = "x"
	mirrorDesired := podctltest.Desired(t, "api", mirror)
	mirrorDesired.Ref.Uid = "mirror-of-web"
	stale := podctltest.Desired(t, "api", podctltest.Pod("shop", "stale"))
	stale.Stale = true

	config := &fakePodconfigd{pods: []*podconfigv1.Pod{
		podctltest.Desired(t, "file", podctltest.Pod("default", "crash")),
		podctltest.Desired(t, "file", podctltest.Pod("default", "new")),
		podctltest.Desired(t, "api", deleted),
		stale,
		podctltest.Desired(t, "file", podctltest.Pod("shop", "web")),
		mirrorDesired,
		podctltest.Ref("http", "shop", "without-content"),
	}}

	stopping := podctltest.Observed(t, "default", "stopping", up)
	stopping.WorkerState, stopping.Desired = podexecv1.WorkerState_WORKER_STATE_TERMINATING, false
	orphan := podctltest.Observed(t, "default", "orphan", up)
	orphan.Source, orphan.Desired = "", false
	crash := podctltest.Observed(t, "default", "crash", &corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{crashing}})
	crash.LastError = "start container web: exit status 1"

	exec := &fakePodexecd{pods: []*podexecv1.ObservedPod{
		crash, orphan, stopping,
		podctltest.Observed(t, "shop", "deleted", up),
		podctltest.Observed(t, "shop", "web", up),
	}}
	return config, exec
}

func TestPods(t *testing.T) {
	for _, output := range []string{"table", "wide", "json", "yaml"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			config, exec := examples(t)
			n.podconfigd(config)
			n.podexecd(exec)
			if code := n.run(t.Context(), "pods", "-A", "--mirrors", "-o", output); code != exitOK || n.stderr.String() != "" {
				t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
			}
			n.golden("pods."+output, n.stdout.String())
		})
	}
}

// One daemon's half is printed, and marked as incomplete.
func TestPodsPartial(t *testing.T) {
	for _, away := range []string{"podconfigd", "podexecd"} {
		t.Run(away, func(t *testing.T) {
			n := newNode(t)
			config, exec := examples(t)
			if away == "podconfigd" {
				n.podexecd(exec)
			} else {
				n.podconfigd(config)
			}
			if code := n.run(t.Context(), "pods"); code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			n.golden("pods-without-"+away+".table", n.stdout.String())
			n.golden("pods-without-"+away+".stderr", n.stderr.String())
		})
	}
}

func TestPodsBothAway(t *testing.T) {
	n := newNode(t)
	if code := n.run(t.Context(), "pods", "-o", "json"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if n.stdout.String() != "" {
		t.Errorf("stdout, with nothing known:\n%s", n.stdout)
	}
	n.golden("pods-without-both.stderr", n.stderr.String())
}

// A daemon that hangs is one that can't be reached.
func TestPodsTimeout(t *testing.T) {
	n := newNode(t)
	config, exec := examples(t)
	exec.hang = true
	n.podconfigd(config)
	n.podexecd(exec)
	if code := n.run(t.Context(), "pods", "--request-timeout=1s"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(n.stdout.String(), "crash") || !strings.Contains(n.stderr.String(), "podexecd at unix://"+n.socket("podexecd")+" didn't answer in time") {
		t.Errorf("stdout:\n%sstderr:\n%s", n.stdout, n.stderr)
	}
}

func TestPodsUndecodable(t *testing.T) {
	n := newNode(t)
	broken := podctltest.Observed(t, "default", "broken", &corev1.PodStatus{})
	broken.Status = &podexecv1.ObservedPod_Protobuf{Protobuf: []byte("not a status")}
	n.podconfigd(&fakePodconfigd{pods: []*podconfigv1.Pod{podctltest.Desired(t, "file", podctltest.Pod("default", "good"))}})
	n.podexecd(&fakePodexecd{pods: []*podexecv1.ObservedPod{broken}})
	if code := n.run(t.Context(), "pods"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(n.stdout.String(), "Undecodable") || !strings.Contains(n.stdout.String(), "good") ||
		!strings.Contains(n.stderr.String(), "decode status of pod default/broken of podexecd") {
		t.Errorf("stdout:\n%sstderr:\n%s", n.stdout, n.stderr)
	}
}

func TestPodsEmpty(t *testing.T) {
	for output, want := range map[string]string{"table": "", "json": "{\n    \"pods\": []\n}\n", "yaml": "pods: []\n"} {
		n := newNode(t)
		n.podconfigd(&fakePodconfigd{})
		n.podexecd(&fakePodexecd{})
		if code := n.run(t.Context(), "pods", "-o", output); code != exitOK || n.stdout.String() != want {
			t.Errorf("%s: exit code %d, stdout %q", output, code, n.stdout)
		}
		if output == "table" && n.stderr.String() != "podctl: no pods found\n" {
			t.Errorf("stderr %q", n.stderr)
		}
	}
}

// Every page of a long list arrives, also if podconfigd drops the revision of the pages in between.
func TestPodsManyPages(t *testing.T) {
	const count = 1000
	config, exec := &fakePodconfigd{aborts: 2}, &fakePodexecd{}
	for i := range count {
		name := fmt.Sprintf("pod-%04d", i)
		config.pods = append(config.pods, podctltest.Desired(t, "file", podctltest.Pod("default", name)))
		exec.pods = append(exec.pods, podctltest.Observed(t, "default", name, &corev1.PodStatus{Phase: corev1.PodPending}))
	}
	n := newNode(t)
	n.podconfigd(config)
	n.podexecd(exec)
	if code := n.run(t.Context(), "pods", "-o", "json"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, n.stderr)
	}
	var list struct{ Pods []podsummary.Document }
	if err := json.Unmarshal([]byte(n.stdout.String()), &list); err != nil {
		t.Fatal(err)
	}
	docs := list.Pods
	if len(docs) != count {
		t.Fatalf("%d pods, want %d", len(docs), count)
	}
	for i, doc := range docs {
		if doc.Name != fmt.Sprintf("pod-%04d", i) || doc.Desired == nil || doc.Observed == nil {
			t.Fatalf("pod %d: %+v", i, doc)
		}
	}
}

// A list whose revision is dropped again and again ends.
func TestPodsAborted(t *testing.T) {
	n := newNode(t)
	config, exec := examples(t)
	config.aborts = 1000
	n.podconfigd(config)
	n.podexecd(exec)
	if code := n.run(t.Context(), "pods"); code != exitFailed || !strings.Contains(n.stderr.String(), "Aborted: the revision is gone") {
		t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
	}
}

func TestAllPagesStopsAtALoop(t *testing.T) {
	calls := 0
	_, err := allPages(newTool(Config{}).newListSize(), func(string) ([]*podexecv1.ObservedPod, string, error) {
		calls++
		return []*podexecv1.ObservedPod{{}}, "again", nil
	})
	if err == nil || calls != 2 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

func TestPodsNamespace(t *testing.T) {
	for args, want := range map[string][]string{
		"pods": nil, "pods -n shop": {"shop"}, "pods --namespace=shop": {"shop"}, "pods -n shop -A": nil,
	} {
		n := newNode(t)
		config := &fakePodconfigd{}
		n.podconfigd(config)
		n.podexecd(&fakePodexecd{})
		n.run(t.Context(), strings.Fields(args)...)
		if diff := cmp.Diff(want, config.listings[0].GetFilter().GetNamespaces()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}
