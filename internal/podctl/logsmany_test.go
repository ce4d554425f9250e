package podctl

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// manyLogs is a node with the pods web, of three containers, and db. asked are the requests for logs.
type manyLogs struct {
	*node
	mu    sync.Mutex
	asked []*podexecv1.ReadLogsRequest
}

func newManyLogs(t *testing.T) *manyLogs {
	t.Helper()
	n := &manyLogs{node: newNode(t)}
	web := podctltest.Observed(t, "default", "web", &corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{podctltest.Running("init")},
		ContainerStatuses:     []corev1.ContainerStatus{podctltest.Running("app"), podctltest.Running("side")},
	})
	n.podconfigd(&fakePodconfigd{pods: []*podconfigv1.Pod{podctltest.Ref("file", "default", "web"), podctltest.Ref("file", "default", "db")}})
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{web, runningPod(t, "default", "db"), runningPod(t, "default", "other")},
		logs: func(req *podexecv1.ReadLogsRequest, stream logStream) error {
			n.mu.Lock()
			n.asked = append(n.asked, req)
			n.mu.Unlock()
			container := req.GetContainer()
			if container == "" && req.GetRef().GetName() == "web" {
				container = "app"
				if err := stream.Send(&podexecv1.ReadLogsResponse{Defaulted: &podexecv1.DefaultedContainer{Name: "app", Containers: []string{"app", "side"}}}); err != nil {
					return err
				}
			}
			if container == "init" {
				return status.Error(codes.FailedPrecondition, "container init is waiting to start")
			}
			text := map[string][]string{
				"app": {"1 first", "3 third"}, "side": {"2 second\x1b[2J"}, "": {"4 of db"},
			}[container]
			for _, line := range text {
				second, rest, _ := strings.Cut(line, " ")
				if req.GetTimestamps() {
					rest = "2026-03-01T12:00:0" + second + "Z " + rest
				}
				if err := stream.Send(&podexecv1.ReadLogsResponse{Data: []byte(rest + "\n")}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return n
}

// Logs of several containers are merged by time; a failure of one doesn't hide the others.
func TestLogsOfSeveral(t *testing.T) {
	const waiting = "podctl: default/web, container init: podexecd at unix:///run/podexecd.sock: FailedPrecondition: container init is waiting to start\n"
	for _, tc := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"web --all-containers", "first\nsecond\x1b[2J\nthird\n", waiting, exitFailed},
		{"web --all-containers --prefix", "[pod/web/app] first\n[pod/web/side] second\x1b[2J\n[pod/web/app] third\n", waiting, exitFailed},
		{"web -c side --prefix", "[pod/web/side] second\x1b[2J\n", "", exitOK},
		{"web --prefix", "[pod/web/app] first\n[pod/web/app] third\n", "Defaulted container \"app\" out of: app, side\n", exitOK},
		{"db --prefix --timestamps", "[pod/db/web] 2026-03-01T12:00:04Z of db\n", "", exitOK},
		{"-l app=web", "first\nthird\nof db\n", "Defaulted container \"app\" out of: app, side\n", exitOK},
		{"-l app=web --all-containers", "first\nsecond\x1b[2J\nthird\n", waiting, exitFailed},
		{"web --all-containers --limit-bytes 100", "first\nthird\nsecond\x1b[2J\n", waiting, exitFailed},
		{"-f web --all-containers --max-log-requests 2", "", "podctl: there are 3 logs to follow, and at most 2 are followed: raise it by --max-log-requests\n", exitFailed},
	} {
		n := newManyLogs(t)
		code := n.run(t.Context(), append([]string{"logs"}, strings.Fields(tc.args)...)...)
		stderr := strings.ReplaceAll(n.stderr.String(), n.dir, "/run")
		if tc.args == "-l app=web --all-containers" {
			// The container of db is called web, and has no log here.
			stderr = strings.Join(slices.DeleteFunc(strings.SplitAfter(stderr, "\n"), func(l string) bool { return strings.Contains(l, "default/db") }), "")
		}
		if code != tc.code || n.stdout.String() != tc.stdout || stderr != tc.stderr {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", tc.args, code, n.stdout, stderr)
		}
	}
}

// A followed log's lines come whole. With a selector, the last ten lines are requested, as kubectl does.
func TestLogsFollowSeveral(t *testing.T) {
	n := newManyLogs(t)
	code := n.run(t.Context(), "logs", "-f", "-l", "app=web", "--prefix")
	lines := strings.Split(n.stdout.String(), "\n")
	slices.Sort(lines)
	if want := []string{"", "[pod/db/web] of db", "[pod/web/app] first", "[pod/web/app] third"}; code != exitOK || !slices.Equal(lines, want) {
		t.Errorf("exit code %d, lines %q, stderr %q", code, lines, n.stderr)
	}
	for _, req := range n.asked {
		if !req.GetFollow() || req.GetTailLines() != 10 || req.GetTimestamps() {
			t.Errorf("requested %v", req)
		}
	}
	n = newManyLogs(t)
	if code := n.run(t.Context(), "logs", "-l", "app=web", "--tail=-1"); code != exitOK || len(n.asked) != 2 || n.asked[0].TailLines != nil {
		t.Errorf("exit code %d, requested %v", code, n.asked)
	}
}

func TestLogsOfNone(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{})
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "db")}})
	if code := n.run(t.Context(), "logs", "-l", "app=web"); code != exitFailed || n.stderr.String() != "podctl: no pod in namespace default matches app=web\n" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
	pods := []*podexecv1.ObservedPod{}
	desired := []*podconfigv1.Pod{}
	for i := range maxMerged + 1 {
		pods = append(pods, runningPod(t, "default", fmt.Sprint("web-", i)))
		desired = append(desired, podctltest.Ref("file", "default", fmt.Sprint("web-", i)))
	}
	n = newNode(t)
	n.podconfigd(&fakePodconfigd{pods: desired})
	n.busy(&busyPodexecd{pods: pods})
	if code := n.run(t.Context(), "logs", "-l", "app=web"); code != exitFailed || !strings.Contains(n.stderr.String(), "101 logs, and at most 100 are merged") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

// The names before the lines are escaped, also in a pipe.
func TestLogsPrefixIsHarmless(t *testing.T) {
	n := newNode(t)
	pod := podctltest.Observed(t, "default", "web", &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{podctltest.Running(podctltest.Hostile)}})
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{pod},
		logs: func(_ *podexecv1.ReadLogsRequest, stream logStream) error {
			return stream.Send(&podexecv1.ReadLogsResponse{Data: []byte("line\n")})
		},
	})
	for _, args := range []string{"web --prefix", "web --prefix --all-containers", "web --prefix -f"} {
		n.stdout = newScreen()
		code := n.run(t.Context(), append([]string{"logs"}, strings.Fields(args)...)...)
		podctltest.CheckHarmless(t, args, n.stdout.String())
		if code != exitOK || !strings.HasSuffix(n.stdout.String(), "] line\n") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args, code, n.stdout, n.stderr)
		}
	}
}
