package podctl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// runExamples runs podctl on the pods of examples.
func runExamples(t *testing.T, args string) (n *node, code int) {
	t.Helper()
	n = newNode(t)
	config, exec := examples(t)
	config.sources = exampleSources()
	n.podconfigd(config)
	n.podexecd(exec)
	return n, n.run(t.Context(), strings.Split(args, " ")...)
}

// `podctl get pods` has kubectl's columns and objects.
func TestGetPods(t *testing.T) {
	for args, want := range map[string]string{
		"get pods -n shop": "NAME              READY   STATUS        RESTARTS   AGE\n" +
			"deleted           1/1     Terminating   0          5m\n" +
			"stale             0/1     NotStarted    0          5m\n" +
			"web               1/1     Running       0          5m\n" +
			"without-content   -       NotStarted    -          -\n",
		"get pods --field-selector status.phase=Running,metadata.namespace=default --no-headers": "default   crash      0/1   CrashLoopBackOff   4 (90s ago)   5m\n" +
			"default   orphan     1/1   Orphan             0             -\n" +
			"default   stopping   1/1   Terminating        0             -\n",
		"get po -o jsonpath={.items[*].status.podIP}": "10.0.0.7 10.0.0.7 10.0.0.7 10.0.0.7",
		"get pods -n shop --mirrors --no-headers --field-selector metadata.name=web": "web   -     Mirror    -     5m\n" +
			"web   1/1   Running   0     5m\n",
		"get pod web -o jsonpath={.status.podIP}":                    "10.0.0.7",
		"get pod web --mirrors -o jsonpath={.items[1].status.podIP}": "10.0.0.7",
		"get pods -o name --sort-by=.status.podIP --no-headers":      "pod/crash\npod/new\npod/stale\npod/without-content\npod/orphan\npod/stopping\npod/deleted\npod/web\n",
		"get pods -o custom-columns=A:.metadata.name,B:.spec.containers[*].image --sort-by {.metadata.name} --field-selector metadata.namespace!=shop": "A          B\n" +
			"crash      localhost/podstream-sample:dev\n" + "new        localhost/podstream-sample:dev\n" + "orphan     <none>\n" + "stopping   <none>\n",
		"get sources --no-headers -o custom-columns=N:.name":                     "file\nhttp:central\n",
		"get pods --show-labels --no-headers --field-selector metadata.name=new": "default   new   0/1   NotStarted   0     5m    <none>\n",
		"pods -o name --sort-by .uid":                                            "pod/crash\npod/deleted\npod/new\npod/orphan\npod/stale\npod/stopping\npod/web\npod/without-content\n",
		"pods -o name -n shop --mirrors":                                         "pod/deleted\npod/stale\npod/web\npod/web\npod/without-content\n",
		"pods -o jsonpath={.pods[0].status}":                                     "CrashLoopBackOff",
	} {
		n, code := runExamples(t, args)
		if code != exitOK || n.stdout.String() != want || n.stderr.String() != "" {
			t.Errorf("%s: exit code %d, stderr %q, stdout\n%swant\n%s", args, code, n.stderr, n.stdout, want)
		}
	}
}

// A pod that is named is an object, and several are a list.
func TestGetOneObject(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{})
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web"), runningPod(t, "default", "db")}})
	for args, want := range map[string]string{
		"get pod web": "Pod", "get pod/web": "Pod", "get pods web db": "List", "get pods": "List", "get pod/web pod/db": "List",
	} {
		n.stdout = newScreen()
		code := n.run(t.Context(), append(strings.Fields(args), "-o", "jsonpath={.kind}")...)
		if code != exitOK || n.stdout.String() != want {
			t.Errorf("%s: exit code %d, kind %s, want %s", args, code, n.stdout, want)
		}
	}
}

func TestGetFails(t *testing.T) {
	for args, want := range map[string]string{
		"get pods --field-selector status.color=red":  "--field-selector: there is no field status.color",
		"get events --field-selector metadata.name=x": "--field-selector: there is no field metadata.name",
		"get sources file":                            "get lists all of these",
		"get sources -l a=b":                          "get lists all of these",
		"get pods --sort-by .metadata.nam":            "nothing is sorted: no item has a field .metadata.nam",
		"get sources --sort-by .nam":                  "nothing is sorted: no item has a field .nam",
		"get pods -o jsonpath={.items[99]}":           "array index out of bounds",
		"version -o name":                             "-o name: what this command prints has no names",
		"get pods -w -o json":                         "get --watch has neither",
		"get pods -w --mirrors":                       "--mirrors is for a list",
		"pods -w --mirrors":                           "--mirrors is for a list",
		"get events --mirrors":                        "--mirrors is for pods",
		"get sources --mirrors":                       "get lists all of these",
		"get events -w --sort-by .reason":             "--sort-by sorts a list",
	} {
		n, code := runExamples(t, args)
		if code == exitOK || !strings.Contains(n.stderr.String(), want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %q", args, code, n.stdout, n.stderr, want)
		}
	}
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{})
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web-1")}})
	if code := n.run(t.Context(), "get", "pod", "web"); code != exitFailed || n.stderr.String() != "podctl: there is no pod default/web; there is web-1\n" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

func TestGetEvents(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{events: []*podexecv1.PodEvent{
		podEvent("default", "web", "", "Normal", "Scheduled", "b", 1), podEvent("default", "db", "app", "Warning", "BackOff", "a", 3),
	}})
	for args, want := range map[string]string{
		"get events -o jsonpath={.items[*].involvedObject.name}":   "web db",
		"get events --sort-by .message -o jsonpath={..fieldPath}":  "spec.containers{app}",
		"get ev --field-selector type=Warning --no-headers":        "default   60s   Warning   BackOff   pod/db   app   a\n",
		"events --types warning --no-headers":                      "default   60s   Warning   BackOff   pod/db   app   a\n",
		"events --sort-by .message -o jsonpath={.events[*].count}": "3 1",
		"get events web -o jsonpath={.items[*].reason}":            "Scheduled",
	} {
		n.stdout = newScreen()
		if code := n.run(t.Context(), strings.Split(args, " ")...); code != exitOK || n.stdout.String() != want {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %q", args, code, n.stdout, n.stderr, want)
		}
	}
}

func TestPs(t *testing.T) {
	for args, want := range map[string]string{
		"ps": "CONTAINER ID   IMAGE   STATUS   RESTARTS   NAME   POD        NAMESPACE\n" +
			"-              -       Up       0          web    orphan     default\n" +
			"-              -       Up       0          web    stopping   default\n" +
			"-              -       Up       0          web    deleted    shop\n" +
			"-              -       Up       0          web    web        shop\n",
		"ps -a --no-headers --sort-by .restarts -o custom-columns=P:.pod,S:.state": "orphan     running\nstopping   running\ndeleted    running\n" +
			"web        running\ncrash      waiting\n",
		"ps -a -o name": "container/web\ncontainer/web\ncontainer/web\ncontainer/web\ncontainer/web\n",
	} {
		n, code := runExamples(t, args)
		if code != exitOK || n.stdout.String() != want || n.stderr.String() != "" {
			t.Errorf("%s: exit code %d, stderr %q, stdout\n%swant\n%s", args, code, n.stderr, n.stdout, want)
		}
	}
	n := newNode(t)
	pod := runningPod(t, "default", "web")
	status := podctltest.Running("web")
	status.ContainerID, status.Image = "containerd://0123456789abcdef", "localhost/i:1"
	withID := podctltest.Observed(t, "default", "web", &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}})
	pod.Status = withID.Status
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{pod}})
	for args, want := range map[string]string{"ps -q": "0123456789ab\n", "ps -q --no-trunc": "0123456789abcdef\n", "ps -q web": "0123456789ab\n", "ps -q db": ""} {
		n.stdout = newScreen()
		if code := n.run(t.Context(), strings.Fields(args)...); code != exitOK || n.stdout.String() != want {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args, code, n.stdout, n.stderr)
		}
	}
}

// As with kubectl, the pods that are there are printed, and each other name is an error.
func TestGetNamesEachMissingPod(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{})
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")}})
	code := n.run(t.Context(), "get", "pod/web", "pod/none", "pod/gone", "-o", "name")
	want := "podctl: there is no pod default/none\npodctl: there is no pod default/gone\n"
	if code != exitFailed || n.stdout.String() != "pod/web\n" || n.stderr.String() != want {
		t.Errorf("exit code %d, %q, %q", code, n.stdout, n.stderr)
	}
}
