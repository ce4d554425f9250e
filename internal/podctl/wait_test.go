package podctl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestWait: the messages and exit codes are those of kubectl wait.
func TestWait(t *testing.T) {
	ready := func(name string, is corev1.ConditionStatus) *podexecv1.ObservedPod {
		return podctltest.Observed(t, "default", name, &corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: is}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: 1234567}},
		})
	}
	web, webNot, db := ready("web", corev1.ConditionTrue), ready("web", corev1.ConditionFalse), ready("db-node1", corev1.ConditionTrue)
	again := ready("web", corev1.ConditionTrue)
	again.Ref.Uid = "another"
	undesired := ready("web", corev1.ConditionFalse)
	undesired.Ref.Uid, undesired.Desired = "former", false
	type messages = []*podexecv1.WatchPodStatusResponse
	const timedOut = "podctl: timed out waiting for the condition on pods/"
	for _, tt := range []struct {
		name, args     string
		scripts        []messages
		code           int
		stdout, stderr string
	}{
		{name: "ready at first", args: "web --for=condition=Ready", scripts: []messages{{isNow("", web), isSynced("a", false)}}, stdout: "pod/web condition met\n"},
		{name: "ready later", args: "pod/web --for=condition=ready=TRUE", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", webNot), isSynced("a", false), isNow("b", web)}}},
		{name: "not ready", args: "pod web --for=condition=Ready=false", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", webNot), isSynced("a", false)}}},
		{name: "over a restart of podexecd", args: "web --for=condition=Ready", stdout: "pod/web condition met\n", stderr: "reconnecting",
			scripts: []messages{{isNow("", webNot), isSynced("a", false)}, {isNow("", webNot), isSynced("x", false), isNow("y", web)}}},
		{name: "several, by a static pod's short name", args: "web db --for=condition=Ready", stdout: "pod/web condition met\npod/db-node1 condition met\n",
			scripts: []messages{{isNow("", web), isNow("", db), isSynced("a", false)}}},
		{name: "the desired one of a name", args: "web --for=condition=Ready", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", undesired), isNow("", web), isSynced("a", false)}}},
		{name: "removed and added again", args: "web --for=condition=Ready", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", webNot), isSynced("a", false), isGone("b", webNot), isNow("c", again)}}},
		{name: "timeout", args: "web db --for=condition=Ready --timeout=1m", code: exitFailed, stdout: "pod/db-node1 condition met\n", stderr: timedOut + "web\n",
			scripts: []messages{{isNow("", webNot), isNow("", db), isSynced("a", false)}}},
		{name: "once", args: "web --for=condition=Ready --timeout=0", code: exitFailed, stderr: timedOut + "web\n",
			scripts: []messages{{isNow("", webNot), isSynced("a", false), isNow("b", web)}}},
		{name: "once, met", args: "web --for=condition=Ready --timeout=0s", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "no such pod", args: "web db --for=condition=Ready --timeout=-1s", code: exitFailed, stdout: "pod/web condition met\n",
			stderr: "podctl: there is no pod default/db\n", scripts: []messages{{isNow("", web), isSynced("a", false)}}},

		{name: "the phase", args: "web --for=jsonpath={.status.phase}=Running", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "the phase, quoted, relaxed", args: `web --for=jsonpath='.status.phase'="Running"`, stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "a number", args: "web --for=jsonpath='{.status.containerStatuses[0].restartCount}'=1234567", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "a filter", args: `web --for=jsonpath={.status.conditions[?(@.type=="Ready")].status}=True`, stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", webNot), isSynced("a", false), isNow("b", web)}}},
		{name: "any value", args: "web --for=jsonpath={.status.startTime}", code: exitFailed, stderr: timedOut + "web\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "any value, there", args: "web --for=jsonpath={.status.phase}", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "no such index", args: "web --for=jsonpath={.status.containerStatuses[3].name}=x", code: exitFailed, stderr: timedOut + "web\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "an object", args: "web --for=jsonpath={.status.containerStatuses[0]}=x", code: exitFailed, stderr: "only a scalar can be compared",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "the UID", args: "web --for=jsonpath={.metadata.uid}=" + podctltest.UID("web"), stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},

		{name: "delete", args: "web --for=delete", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", web), isSynced("a", false), isNow("b", webNot), isGone("c", web)}}},
		{name: "delete, and added again", args: "web --for=delete", stdout: "pod/web condition met\n",
			scripts: []messages{{isNow("", web), isSynced("a", false), isNow("b", again), isGone("c", web)}}},
		{name: "deleted during a break", args: "web --for=delete", stdout: "pod/web condition met\n", stderr: "reconnecting",
			scripts: []messages{{isNow("", web), isSynced("a", false)}, {isSynced("x", false)}}},
		{name: "delete of no pod", args: "web --for=delete", scripts: []messages{{isSynced("a", false)}}},
		{name: "not deleted", args: "web --for=delete --timeout=1m", code: exitFailed, stderr: timedOut + "web\n",
			scripts: []messages{{isNow("", web), isSynced("a", false)}}},
		{name: "create", args: "web --for=create", stdout: "pod/web condition met\n",
			scripts: []messages{{isSynced("a", false), isNow("b", webNot)}}},
		{name: "not created", args: "web --for=create --timeout=1m", code: exitFailed, stderr: timedOut + "web\n",
			scripts: []messages{{isSynced("a", false)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := strings.Fields("wait " + tt.args)
			n := newNode(t)
			n.busy(&busyPodexecd{scripts: tt.scripts})
			run := func() int { return n.run(t.Context(), args...) }
			if strings.Contains(tt.stderr, timedOut) && !strings.Contains(tt.args, "--timeout=0") {
				run = func() int { return n.runToLimit(tt.stdout, args...) }
			}
			code := run()
			if code != tt.code || n.stdout.String() != tt.stdout || !strings.Contains(n.stderr.String(), tt.stderr) || tt.stderr == "" && n.stderr.String() != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, %q, %q", code, n.stdout, n.stderr, tt.code, tt.stdout, tt.stderr)
			}
		})
	}
	n := newNode(t)
	if code := n.run(t.Context(), "wait", "web", "--for=delete"); code != exitFailed || !strings.Contains(n.stderr.String(), "can't reach podexecd") {
		t.Errorf("without podexecd: exit code %d, stderr %q", code, n.stderr)
	}
}

// TestWaitBrokenAtOnce: podexecd ends after it has answered with the node's name, and before it has sent a status. With
// --timeout=0, podctl doesn't wait for the next podexecd.
func TestWaitBrokenAtOnce(t *testing.T) {
	pod := isNow("", runningPod(t, "default", "web"))
	for _, tt := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{args: "--for=create", stdout: "pod/web condition met\n", stderr: "; reconnecting\npodctl: connected to podexecd again\n"},
		{args: "--for=create --timeout=0", stderr: "ended the stream\n", code: exitFailed},
	} {
		n := newNode(t)
		n.busy(&busyPodexecd{
			version: &podexecv1.GetVersionResponse{NodeName: "node1"},
			scripts: [][]*podexecv1.WatchPodStatusResponse{{}, {pod, isSynced("t", false)}},
		})
		code := n.run(t.Context(), strings.Fields("wait web "+tt.args)...)
		if code != tt.code || n.stdout.String() != tt.stdout || !strings.HasSuffix(n.stderr.String(), tt.stderr) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %d, %q, %q", tt.args, code, n.stdout, n.stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}
