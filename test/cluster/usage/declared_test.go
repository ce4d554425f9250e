package usage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/rig"
)

// The Node declares the features that a kubelet of the API server's version declares by default, and the API server and
// the scheduler use them.
func TestDeclaredFeatures(t *testing.T) {
	node := rig.Get(here.Client.CoreV1().Nodes().Get(t.Context(), here.main.Name, metav1.GetOptions{}))(t)
	want := []string{
		"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
		"RestartAllContainersOnContainerExits",
	}
	if got := node.Status.DeclaredFeatures; !slices.Equal(got, want) {
		t.Errorf("it declares %q; want %q", got, want)
	}
}

// webSockets returns the API server's counts of streams over WebSockets, by subresource and by which side translates
// them: "exec proxied_to_kubelet".
func (s *site) webSockets(t *testing.T) map[string]string {
	t.Helper()
	counts := map[string]string{}
	for line := range strings.Lines(s.kubectl(t, "get", "--raw", "/metrics")) {
		labels, value, found := strings.Cut(strings.TrimSpace(line), "} ")
		if _, labels, ok := strings.Cut(labels, "websocket_streaming_requests_total{"); found && ok {
			var proxy, subresource string
			for label := range strings.SplitSeq(labels, ",") {
				name, text, _ := strings.Cut(label, "=")
				switch name {
				case "proxy_type":
					proxy = strings.Trim(text, `"`)
				case "subresource":
					subresource = strings.Trim(text, `"`)
				}
			}
			counts[subresource+" "+proxy] = value
		}
	}
	return counts
}

// As the Node declares ExtendWebSocketsToKubelet, the API server passes on WebSockets, and translates none.
func TestWebSocketsReachTheNode(t *testing.T) {
	s := newSpace(t)
	before := s.site.webSockets(t)
	t.Setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "true")
	t.Setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", "true")
	s.applyPod(t, "echo", sampleImage, sample("stdin")+", stdin: true, stdinOnce: true", "restartPolicy: Never, terminationGracePeriodSeconds: 1")
	s.awaitReady(t, "echo")
	if _, err := s.try(t.Context(), "", "exec", "echo", "--", "/sample", "exit", "7"); exitCode(err) != 7 {
		t.Errorf("exit code 7 is reported as %v", err)
	}
	// The end of the input arrives: only version 5 of the protocol has it.
	if got := rig.Get(s.try(t.Context(), "typed", "exec", "-i", "echo", "--", "/sample", "stdin"))(t); got != "typed" {
		t.Errorf("exec prints %q", got)
	}
	forwarded := s.begin(t, "port-forward", "pod/echo", ":80")
	forwarded.expect(t, "Forwarding from 127.0.0.1:")
	attached := s.begin(t, "attach", "-i", "echo")
	attached.say(t, "hello\n")
	attached.expect(t, "hello\n")
	rig.Must(t, attached.in.Close())
	if err := attached.wait(t); err != nil {
		t.Errorf("kubectl attach: %v, %q", err, attached.text())
	}
	after := s.site.webSockets(t)
	for _, subresource := range []string{"exec", "attach", "portforward"} {
		passed, translated := subresource+" proxied_to_kubelet", subresource+" translated_at_apiserver"
		if after[passed] == "" || after[passed] == before[passed] || after[translated] != before[translated] {
			t.Errorf("%s: passed on %q, before %q; translated %q, before %q", subresource,
				after[passed], before[passed], after[translated], before[translated])
		}
	}
}

// The scheduler assigns a pod with a rule that restarts all containers only to nodes that declare the feature.
func TestRestartAllContainersIsScheduled(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "pair", toolsImage,
		shell("test -e /log/failed && exec /sample sleep; : > /log/failed; exit 42")+`, restartPolicy: Never, volumeMounts: [{name: log, mountPath: /log}],
restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]`,
		`restartPolicy: Never, terminationGracePeriodSeconds: 1, volumes: [{name: log, emptyDir: {}}],
initContainers: [{name: setup, image: "`+sampleImage+`", `+sample("exit", "0")+`}]`)
	s.awaitPod(t, "pair", "runs again, its init container too", func(pod *corev1.Pod) error {
		if len(pod.Status.InitContainerStatuses) != 1 || len(pod.Status.ContainerStatuses) != 1 {
			return errNo
		}
		setup, main := pod.Status.InitContainerStatuses[0], pod.Status.ContainerStatuses[0]
		return when(isReady(pod) && setup.RestartCount == 1 && main.RestartCount == 1 && main.State.Running != nil)
	})
}

// The API server accepts a resize of a whole pod and of an init container, because the Node declares both, and the node
// carries them out.
func TestResizesThatNeedDeclaredFeatures(t *testing.T) {
	s := newSpace(t)
	const amounts = `{requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 50m, memory: 32Mi}}`
	s.applyPod(t, "whole", sampleImage, idle, "terminationGracePeriodSeconds: 1, resources: "+amounts)
	s.awaitReady(t, "whole")
	s.kubectl(t, "patch", "pod", "whole", "--subresource=resize", "-p",
		`{"spec":{"resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"cpu":"100m","memory":"64Mi"}}}}`)
	s.awaitPod(t, "whole", "has twice as much", func(pod *corev1.Pod) error {
		r := pod.Status.Resources
		return when(r != nil && r.Limits.Memory().String() == "64Mi" && pod.Status.AllocatedResources.Cpu().String() == "100m" &&
			pod.Status.ObservedGeneration == pod.Generation && podCondition(pod, corev1.PodResizeInProgress) == nil)
	})

	s.applyPod(t, "prepared", sampleImage, idle, `terminationGracePeriodSeconds: 1,
initContainers: [{name: setup, image: "`+toolsImage+`", `+shell("until test -e /tmp/go; do /sample sleep 100ms; done; for file in memory.max memory/memory.limit_in_bytes; do test ! -e /sys/fs/cgroup/$file || /sample cat /sys/fs/cgroup/$file; done")+`,
resources: {requests: {memory: 32Mi}, limits: {memory: 32Mi}}}]`)
	s.awaitPod(t, "prepared", "has a running init container", func(pod *corev1.Pod) error {
		return when(len(pod.Status.InitContainerStatuses) == 1 && pod.Status.InitContainerStatuses[0].State.Running != nil)
	})
	s.kubectl(t, "patch", "pod", "prepared", "--subresource=resize", "-p",
		`{"spec":{"initContainers":[{"name":"setup","resources":{"requests":{"memory":"64Mi"},"limits":{"memory":"64Mi"}}}]}}`)
	s.awaitPod(t, "prepared", "has a resized init container", func(pod *corev1.Pod) error {
		c := pod.Status.InitContainerStatuses[0]
		return when(c.RestartCount == 0 && c.Resources != nil && c.Resources.Limits.Memory().String() == "64Mi" &&
			c.AllocatedResources.Memory().String() == "64Mi" && podCondition(pod, corev1.PodResizeInProgress) == nil)
	})
	s.kubectl(t, "exec", "prepared", "-c", "setup", "--", "sh", "-c", ": > /tmp/go")
	s.awaitReady(t, "prepared")
	if got, want := strings.TrimSpace(s.kubectl(t, "logs", "prepared", "-c", "setup")), fmt.Sprint(64<<20); got != want {
		t.Errorf("the init container's cgroup allows it %q bytes; want %s", got, want)
	}
}
