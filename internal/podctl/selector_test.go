package podctl

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// newLabelledNode has the pods web, which has the label app=web, db, and orphan, which isn't desired.
func newLabelledNode(t *testing.T) (*node, *fakePodconfigd, *busyPodexecd) {
	t.Helper()
	n := newNode(t)
	config := &fakePodconfigd{
		pods:     []*podconfigv1.Pod{podctltest.Desired(t, "file", podctltest.Pod("default", "web")), podctltest.Desired(t, "file", podctltest.Pod("default", "db"))},
		labelled: map[string][]string{"app=web": {"web"}},
	}
	exec := &busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web"), runningPod(t, "default", "db"), runningPod(t, "default", "orphan")}}
	for _, name := range []string{"web", "db", "orphan"} {
		exec.events = append(exec.events, podEvent("default", name, "", "Normal", "Started", "of "+name, 1))
	}
	n.podconfigd(config)
	n.busy(exec)
	return n, config, exec
}

// Labels select pods for every command: by podconfigd, as podexecd doesn't have them.
func TestSelector(t *testing.T) {
	n, _, _ := newLabelledNode(t)
	for args, want := range map[string]string{
		"pods -l app=web -o name":                            "pod/web\n",
		"get pods -l app=web -o name":                        "pod/web\n",
		"pods -l app=none -o name":                           "",
		"ps -l app=web -o name":                              "container/web\n",
		"events -l app=web -o jsonpath={.events[*].message}": "of web",
	} {
		n.stdout, n.stderr = newScreen(), newScreen()
		if code := n.run(t.Context(), strings.Fields(args)...); code != exitOK || n.stdout.String() != want || n.stderr.String() != "" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %q", args, code, n.stdout, n.stderr, want)
		}
	}
	n.stdout = newScreen()
	if code := n.run(t.Context(), "describe", "-l", "app=web"); code != exitOK || strings.Count(n.stdout.String(), "Namespace:") != 1 ||
		!strings.Contains(n.stdout.String(), "Name:         web\n") {
		t.Errorf("describe: exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
	n.stderr = newScreen()
	if code := n.run(t.Context(), "describe", "-l", "app=none"); code != exitFailed || n.stderr.String() != "podctl: no pod in namespace default matches app=none\n" {
		t.Errorf("describe: exit code %d, stderr %q", code, n.stderr)
	}
}

// Without podconfigd nothing is known of labels: no pod is shown as if it matched, or as if none did.
func TestSelectorWithoutPodconfigd(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")}, events: []*podexecv1.PodEvent{
		podEvent("default", "web", "", "Normal", "Started", "x", 1),
	}})
	for _, args := range []string{"pods -l app=web", "get pods -l app=web", "ps -l app=web", "events -l app=web", "logs -l app=web", "describe -l app=web"} {
		n.stdout, n.stderr = newScreen(), newScreen()
		if code := n.run(t.Context(), strings.Fields(args)...); code != exitFailed || n.stdout.String() != "" ||
			!strings.Contains(n.stderr.String(), "can't reach podconfigd") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args, code, n.stdout, n.stderr)
		}
	}
}

// describe takes several pods, and goes on after one that it doesn't find.
func TestDescribeSeveral(t *testing.T) {
	n, _, _ := newLabelledNode(t)
	code := n.run(t.Context(), "describe", "web", "none", "pod/db")
	if code != exitFailed || strings.Count(n.stdout.String(), "Namespace:") != 2 || n.stderr.String() != "podctl: there is no pod default/none\n" {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, n.stderr, n.stdout)
	}
}

// A watch shows the pods that match, and survives a podconfigd that doesn't answer about a new one.
func TestSelectorWatch(t *testing.T) {
	n, config, exec := newLabelledNode(t)
	changed := func(pod *podexecv1.ObservedPod) *podexecv1.ObservedPod {
		pod = proto.CloneOf(pod)
		pod.LastError = "changed"
		return pod
	}
	exec.scripts = [][]*podexecv1.WatchPodStatusResponse{{
		isNow("", exec.pods[0]), isNow("", exec.pods[1]), isSynced("1", false),
		isNow("2", changed(exec.pods[1])), isNow("3", changed(exec.pods[0])),
	}}
	interrupt := n.start("pods", "-w", "-l", "app=web", "-o", "jsonpath={.name} {.message}{\"\\n\"}")
	n.stdout.await(t, "web changed\n")
	if code := interrupt(); code != exitOK || n.stdout.String() != "web \nweb changed\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
	config.mu.Lock()
	defer config.mu.Unlock()
	if len(config.listings) != 1 {
		t.Errorf("podconfigd was asked %d times about two pods", len(config.listings))
	}
}
