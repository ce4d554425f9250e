package podctl

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// webIs is pod web with these containers, in this phase.
func webIs(t *testing.T, phase corev1.PodPhase, ready bool, containers ...corev1.ContainerStatus) *podexecv1.ObservedPod {
	t.Helper()
	s := &corev1.PodStatus{Phase: phase, ContainerStatuses: containers}
	if ready {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return podctltest.Observed(t, "default", "web", s)
}

// container is the n-th container of a name: its ID is NAME-N.
func container(name string, n int32, ready bool, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, ContainerID: "containerd://" + name + "-" + fmt.Sprint(n), RestartCount: n, Ready: ready, State: state}
}

var runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

func endedWith(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}

func waitsFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// restarts accepts a request for these containers.
func restarts(t *testing.T, joined bool, names ...string) func(*podexecv1.RestartPodRequest) (*podexecv1.RestartPodResponse, error) {
	return func(req *podexecv1.RestartPodRequest) (*podexecv1.RestartPodResponse, error) {
		want := &podconfigv1.PodRef{Namespace: "default", Name: "web", Uid: podctltest.UID("web")}
		if !proto.Equal(req.GetRef(), want) || len(names) == 1 && req.GetContainer() != "" && req.GetContainer() != names[0] {
			t.Errorf("the request is %v", req)
		}
		resp := &podexecv1.RestartPodResponse{Ref: req.GetRef(), Joined: joined, GracePeriodSeconds: 30}
		for _, name := range names {
			resp.Containers = append(resp.Containers, &podexecv1.RestartedContainer{Name: name, ContainerId: "containerd://" + name + "-0"})
		}
		return resp, nil
	}
}

// TestRestart follows restarts to their end, over a break of the stream.
func TestRestart(t *testing.T) {
	const running = corev1.PodRunning
	old, oldSide := container("main", 0, true, runs), container("side", 0, true, runs)
	for _, tt := range []struct {
		name   string
		args   string
		joined bool
		// names are the containers that are restarted, and scripts the streams of statuses.
		names   []string
		scripts [][]*podexecv1.ObservedPod
		code    int
		stdout  string
		stderr  string
	}{
		{
			name: "two containers", names: []string{"side", "main"},
			scripts: [][]*podexecv1.ObservedPod{{
				webIs(t, running, true, old, oldSide),
				webIs(t, running, false, container("main", 0, false, endedWith(143)), oldSide),
				webIs(t, running, false, container("main", 0, false, waitsFor("PodInitializing", "")), container("side", 1, false, runs)),
				webIs(t, running, false, container("main", 1, false, runs), container("side", 1, true, runs)),
			}},
			stdout: "pod/web: restarting side, main (grace period 30s)\ncontainer main: stopped with exit code 143\n" +
				"container side: running (restart 1)\ncontainer main: waiting: PodInitializing\ncontainer main: running (restart 1)\npod/web restarted\n",
		},
		{
			name: "one container, until it is ready, joined, podexecd restarts", args: "-c main --wait", joined: true, names: []string{"main"},
			scripts: [][]*podexecv1.ObservedPod{
				{webIs(t, running, true, old)},
				{webIs(t, running, false, container("main", 1, false, runs)), webIs(t, running, false, container("main", 1, true, runs))},
			},
			stdout: "pod/web: already restarting main (grace period 30s)\ncontainer main: running, not ready (restart 1)\n" +
				"container main: ready (restart 1)\npod/web restarted\n",
			stderr: "reconnecting",
		},
		{
			name: "until the pod is ready, over a crash", args: "--wait", names: []string{"main"},
			scripts: [][]*podexecv1.ObservedPod{{
				webIs(t, running, false, container("main", 1, false, endedWith(1))),
				webIs(t, running, false, container("main", 2, true, runs)), webIs(t, running, true, container("main", 2, true, runs)),
			}},
			stdout: "pod/web: restarting main (grace period 30s)\ncontainer main: ended again with exit code 1\ncontainer main: ready (restart 2)\npod/web restarted\n",
		},
		{
			name: "a crash", names: []string{"main"}, code: exitFailed,
			scripts: [][]*podexecv1.ObservedPod{{webIs(t, running, false, corev1.ContainerStatus{
				Name: "main", ContainerID: "containerd://main-1", State: waitsFor("CrashLoopBackOff", "back-off 10s"), LastTerminationState: endedWith(7),
			})}},
			stdout: "pod/web: restarting main (grace period 30s)\ncontainer main: ended again with exit code 7, waiting: CrashLoopBackOff: back-off 10s\n",
			stderr: "podctl: container main of pod web was restarted, and ended again with exit code 7, waiting: CrashLoopBackOff: back-off 10s\n",
		},
		{
			name: "a job that is done", names: []string{"main"},
			scripts: [][]*podexecv1.ObservedPod{{webIs(t, corev1.PodSucceeded, false, container("main", 1, false, endedWith(0)))}},
			stdout:  "pod/web: restarting main (grace period 30s)\ncontainer main: ended again with exit code 0\npod/web restarted\n",
		},
		{
			name: "the pod finishes", names: []string{"main"}, code: exitFailed,
			scripts: [][]*podexecv1.ObservedPod{{webIs(t, corev1.PodFailed, false, container("main", 0, false, endedWith(1)))}},
			stdout:  "pod/web: restarting main (grace period 30s)\ncontainer main: stopped with exit code 1\n",
			stderr:  "podctl: pod web finished before its restart was complete: it is Failed\n",
		},
		{
			name: "the pod is removed", names: []string{"main"}, code: exitFailed, scripts: [][]*podexecv1.ObservedPod{{}},
			stdout: "pod/web: restarting main (grace period 30s)\n", stderr: "podctl: pod web was removed before its restart was complete\n",
		},
		{
			name: "in time", args: "--timeout=1m", names: []string{"main"}, code: exitFailed,
			scripts: [][]*podexecv1.ObservedPod{{func() *podexecv1.ObservedPod {
				p := webIs(t, running, true, old)
				p.LastError = "replace container main: \x1b[31m"
				return p
			}()}},
			stdout: "pod/web: restarting main (grace period 30s)\nwaiting: replace container main: \\x1b[31m\n",
			stderr: "podctl: timed out waiting for the restart of pods/web: not restarted: main; podexecd goes on with it\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			fake := &busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")}, restart: restarts(t, tt.joined, tt.names...)}
			for _, pods := range tt.scripts {
				script := []*podexecv1.WatchPodStatusResponse{isSynced("t", false)}
				for i, p := range pods {
					m := isNow("t", p)
					if i == 0 {
						// The current state comes before its end.
						m.ResumeToken = ""
						script = append([]*podexecv1.WatchPodStatusResponse{m}, script...)
						continue
					}
					script = append(script, m)
				}
				fake.scripts = append(fake.scripts, script)
			}
			n.busy(fake)
			args := append([]string{"restart", "pod/web"}, strings.Fields(tt.args)...)
			run := func() int { return n.run(t.Context(), args...) }
			if strings.Contains(tt.args, "--timeout") {
				run = func() int { return n.runToLimit(tt.stdout, args...) }
			}
			code := run()
			if code != tt.code || n.stdout.String() != tt.stdout || !strings.Contains(n.stderr.String(), tt.stderr) {
				t.Errorf("exit code %d, stdout:\n%s\nwant:\n%s\nstderr %q", code, n.stdout, tt.stdout, n.stderr)
			}
		})
	}
}

// TestRestartBrokenAtOnce: podexecd ends after it has accepted the restart, and before it has sent a status.
func TestRestartBrokenAtOnce(t *testing.T) {
	n := newNode(t)
	restarted := isNow("", webIs(t, corev1.PodRunning, true, container("main", 1, true, runs)))
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")}, restart: restarts(t, false, "main"),
		scripts: [][]*podexecv1.WatchPodStatusResponse{{}, {restarted, isSynced("t", false)}},
	})
	if code := n.run(t.Context(), "restart", "web"); code != 0 || !strings.HasSuffix(n.stdout.String(), "pod/web restarted\n") ||
		!strings.Contains(n.stderr.String(), "; reconnecting\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}

// TestRestartRefused: what podexecd refuses is an error with its reason, and nothing is followed.
func TestRestartRefused(t *testing.T) {
	for err, want := range map[error]string{
		status.Error(codes.InvalidArgument, "container: the pod has no such container: x; it has main"): "it has main",
		status.Error(codes.FailedPrecondition, "the pod has finished"):                                  "the pod has finished",
		status.Error(codes.PermissionDenied, "it takes the role operator"):                              "refuses you: it takes the role operator",
		status.Error(codes.Unavailable, "going down"):                                                   "podexecd may have stored the request",
	} {
		n := newNode(t)
		fake := &busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")}}
		fake.restart = func(*podexecv1.RestartPodRequest) (*podexecv1.RestartPodResponse, error) { return nil, err }
		n.busy(fake)
		if code := n.run(t.Context(), "restart", "web"); code != exitFailed || n.stdout.String() != "" || !strings.Contains(n.stderr.String(), want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", err, code, n.stdout, n.stderr)
		}
		if len(fake.tokens) > 0 {
			t.Errorf("%v: the pod is followed", err)
		}
	}
	n := newNode(t)
	n.busy(&busyPodexecd{})
	if code := n.run(t.Context(), "restart", "web"); code != exitFailed || !strings.Contains(n.stderr.String(), "there is no pod default/web") {
		t.Errorf("of an unknown pod: exit code %d, stderr %q", code, n.stderr)
	}
}
