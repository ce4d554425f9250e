package podctl

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/hostiletext"
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
		"pods -o j":                 "json jsonpath= :4",
		"pods -o jsonp":             "jsonpath= :6",
		"describe web-n1 d":         "db :4",
		"get p":                     "pods :4",
		"get ":                      "consumers events pods sources :4",
		"get pods d":                "db :4",
		"get pod/d":                 "pod/db :4",
		"get po/web-":               "po/web-0 po/web-n1 :4",
		"get sources f":             ":4",
		"get sources/f":             ":4",
		"ps -n shop ":               "web-0 :4",
		"sources accept a":          "api :4",
		"events --types W":          "Warning :4",
		"watch --mode inc":          "incremental :4",
		"diff ":                     "yaml yml json :8",
	} {
		n.stdout = newScreen()
		words := strings.Split(args, " ")
		if code := n.run(t.Context(), append([]string{"__complete"}, words...)...); code != exitOK {
			t.Errorf("%s: exit code %d, stderr:\n%s", args, code, n.stderr)
		}
		offered := strings.Fields(n.stdout.String())
		slices.Sort(offered[:len(offered)-1])
		wanted := strings.Fields(want)
		slices.Sort(wanted[:len(wanted)-1])
		if got, want := strings.Join(offered, " "), strings.Join(wanted, " "); got != want {
			t.Errorf("%s: a shell is offered %q; want %q", args, got, want)
		}
	}
}

// The names of images are completed, but those with characters on which a shell acts.
func TestCompletionOfImages(t *testing.T) {
	n := newNode(t)
	images := []*podexecv1.Image{{Tags: []string{"localhost/app:1", "localhost/$(reboot)", "other:1"}}, {Tags: []string{"localhost:5000/b:2"}}}
	for _, s := range hostiletext.Strings() {
		if utf8.ValidString(s) {
			images = append(images, &podexecv1.Image{Tags: []string{"l" + s + ":1", "l" + s}})
		}
	}
	n.withImages(&imagePodexecd{images: images})
	for args, want := range map[string]string{"localhost": "localhost/app:1 localhost:5000/b:2 :4", "o": "other:1 :4", "x y": ":4"} {
		n.stdout = newScreen()
		words := strings.Fields("__complete images pull " + args)
		if code := n.run(t.Context(), words...); code != exitOK || strings.Join(strings.Fields(n.stdout.String()), " ") != want {
			t.Errorf("%s: exit code %d, %q; want %q", args, code, n.stdout, want)
		}
	}
}

// Names that no pod, container, namespace or source can have aren't offered, and not more than so many others.
func TestCompletionOfHostileNames(t *testing.T) {
	n := newNode(t)
	var pods []*podexecv1.ObservedPod
	var sources []*podconfigv1.Source
	hostile := podctltest.Observed(t, "default", "web", &corev1.PodStatus{})
	status := &corev1.PodStatus{}
	for _, s := range hostiletext.Strings() {
		status.ContainerStatuses = append(status.ContainerStatuses, podctltest.Running(s))
		if utf8.ValidString(s) {
			pods = append(pods, podctltest.Observed(t, s, s, &corev1.PodStatus{}))
			sources = append(sources, &podconfigv1.Source{Name: "file:" + s}, &podconfigv1.Source{Name: s})
		}
	}
	hostile.Status = podctltest.Observed(t, "default", "web", status).Status
	pods = append(pods, hostile)
	for i := range 2 * maxCompletions {
		pods = append(pods, podctltest.Observed(t, "default", fmt.Sprint("many-", i), &corev1.PodStatus{}))
	}
	n.busy(&busyPodexecd{pods: pods})
	n.podconfigd(&fakePodconfigd{sources: sources})
	long := strings.Repeat("x", 100)
	for args, want := range map[string]string{
		"logs w": "web", "pods x": long, "pods -n d": "default", "exec web -c ": long, "watch --source ": "file:" + long + " " + long, "get po/w": "po/web",
	} {
		n.stdout = newScreen()
		n.run(t.Context(), append([]string{"__complete"}, strings.Split(args, " ")...)...)
		podctltest.CheckHarmless(t, args, n.stdout.String())
		if got := strings.Join(strings.Fields(n.stdout.String()), " "); got != want+" :4" {
			t.Errorf("%s: a shell is offered %.500q; want %q", args, got, want)
		}
	}
	n.stdout = newScreen()
	n.run(t.Context(), "__complete", "logs", "m")
	if words := strings.Fields(n.stdout.String()); len(words) != maxCompletions+1 {
		t.Errorf("%d words are offered", len(words))
	}
}

// A shell waits for at most a second for a daemon that doesn't answer, and gets nothing.
func TestCompletionOfASilentDaemon(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.completion = 0 // The default.
	n.podexecd(&fakePodexecd{hang: true})
	if code := n.run(t.Context(), "__complete", "logs", "w"); code != exitOK || n.stdout.String() != ":4\n" {
		t.Errorf("exit code %d, stdout %q", code, n.stdout)
	}
}

func TestCompletionOfContexts(t *testing.T) {
	path := podctlYAML(t, twoContexts, 0o600)
	for args, want := range map[string]string{
		"pods --context=": "here there gateway :4", "config use-context t": "there :4", "config use-context there ": ":4", "--context g": "gateway :4",
	} {
		_, stdout, _ := runAlone(append([]string{"__complete", "--config=" + path}, strings.Split(args, " ")...)...)
		offered, wanted := strings.Fields(stdout), strings.Fields(want)
		slices.Sort(offered)
		slices.Sort(wanted)
		if !slices.Equal(offered, wanted) {
			t.Errorf("%s: a shell is offered %q; want %q", args, offered, wanted)
		}
	}
	if _, stdout, _ := runAlone("__complete", "--config="+podctlYAML(t, twoContexts, 0o666), "pods", "--context="); stdout != ":4\n" {
		t.Errorf("a file that others may write gives %q", stdout)
	}
}

// Without the daemons there are no completions, and no error on the command line.
func TestCompletionAlone(t *testing.T) {
	n := newNode(t)
	if code := n.run(t.Context(), "__complete", "logs", ""); code != exitOK || n.stdout.String() != ":4\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}
