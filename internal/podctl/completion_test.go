package podctl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The completions that a shell gets, as its script requests them. The node is called n1.
func TestCompletion(t *testing.T) {
	n := newNode(t)
	pod := podctltest.Observed(t, "default", "web-n1", &corev1.PodStatus{
		ContainerStatuses: []corev1.ContainerStatus{podctltest.Running("app"), podctltest.Running("side")}, InitContainerStatuses: []corev1.ContainerStatus{podctltest.Running("prepare")},
	})
	evil := runningPod(t, "default", "web-$(reboot)")
	n.busy(&busyPodexecd{
		version: &podexecv1.GetVersionResponse{NodeName: "n1"},
		pods:    []*podexecv1.ObservedPod{pod, runningPod(t, "default", "db"), runningPod(t, "shop", "web-0"), evil},
	})
	n.podconfigd(&fakePodconfigd{sources: []*podconfigv1.Source{{Name: "file"}, {Name: "file:extra"}, {Name: "api"}}})
	for args, want := range map[string]string{
		"logs W":                    ":4",
		"logs we":                   "web-n1 :4",
		"logs -n shop w":            "web-0 :4",
		"describe d":                "db :4",
		"events w":                  "web-0 web-n1 :4",
		"logs db x":                 ":4",
		"exec web -c ":              "app prepare side :4",
		"logs web-n1 --container=s": "side :4",
		"pods -n ":                  "default shop :4",
		"logs -n s":                 "shop :4",
		"diff --source f":           "file file:extra :4",
		"watch --source a":          "api :4",
		"pods -o j":                 "json :4",
		"watch --mode inc":          "incremental :4",
		"diff ":                     "yaml yml json :8",
	} {
		n.stdout = newScreen()
		words := strings.Split(args, " ")
		if code := n.run(t.Context(), append([]string{"__complete"}, words...)...); code != exitOK {
			t.Errorf("%s: exit code %d, stderr:\n%s", args, code, n.stderr)
		}
		if got := strings.Join(strings.Fields(n.stdout.String()), " "); got != want {
			t.Errorf("%s: a shell is offered %q; want %q", args, got, want)
		}
	}
}

// Without the daemons there are no completions, and no error on the command line.
func TestCompletionAlone(t *testing.T) {
	n := newNode(t)
	if code := n.run(t.Context(), "__complete", "logs", ""); code != exitOK || n.stdout.String() != ":4\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}
