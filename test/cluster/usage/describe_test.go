package usage

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// kubectl describe and get show the usual fields of a node and its pods.
func TestKubectlDescribe(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "web", sampleImage, sample("serve", ":8080")+`, ports: [{containerPort: 8080}], readinessProbe: {httpGet: {port: 8080}},
resources: {requests: {cpu: 100m, memory: 64Mi}}`, "terminationGracePeriodSeconds: 1")
	s.applyPod(t, "stuck", "localhost/no-such-image:1", "imagePullPolicy: Never", "")
	s.applyPod(t, "crash", sampleImage, sample("exit", "3"), "")
	s.awaitReady(t, "web")
	s.awaitEvent(t, "stuck", "ErrImageNeverPull")
	s.awaitEvent(t, "crash", "BackOff")

	wantLines(t, "node main", s.kubectl(t, "describe", "node", s.node.Name),
		`Labels: .*`, `kubernetes.io/hostname=main`, `kubernetes.io/os=linux`, `kubernetes.io/arch=\w+`,
		`Unschedulable: +false`,
		`HolderIdentity: +main`,
		`MemoryPressure +False .* KubeletHasSufficientMemory +kubelet has sufficient memory available`,
		`DiskPressure +False .* KubeletHasNoDiskPressure +kubelet has no disk pressure`,
		`PIDPressure +False .* KubeletHasSufficientPID +kubelet has sufficient PID available`,
		`Ready +True .* KubeletReady +kubelet is posting ready status`,
		`InternalIP: +`+regexp.QuoteMeta(here.IP), `Hostname: +main`,
		`cpu: +\d+`, `memory: +\d+Ki`, `ephemeral-storage: +\d+(Ki)?`, `pods: +110`,
		`Machine ID: +\S+`, `System UUID: .*`, `Boot ID: +\S+`, `Kernel Version: +\d.*`, `OS Image: +\S+.*`, `Operating System: +linux`,
		`Container Runtime Version: +containerd://.*`, `Kubelet Version: +v1\..*`,
		s.name+` +web +100m \(\d+%\) +0 \(0%\) +64Mi \(\d+%\).*`,
		`Normal +RegisteredNode .*`,
	)
	wantLines(t, "pod web", s.kubectl(t, "describe", "pod", "web"),
		`Node: +main/`+regexp.QuoteMeta(here.IP), `Status: +Running`, `IP: +10\.\S+`,
		`Container ID: +containerd://\S+`, `Image ID: +\S*sha256:\S+`, `State: +Running`, `Ready: +True`, `Restart Count: +0`,
		`PodReadyToStartContainers +True`, `Initialized +True`, `Ready +True`, `ContainersReady +True`, `PodScheduled +True`,
		`QoS Class: +Burstable`,
		`Normal +Scheduled .*`, `Normal +Pulled +.* kubelet.* Container image .* already present on machine.*`,
		`Normal +Created .*`, `Normal +Started .*`,
	)
	wantLines(t, "pod stuck", s.kubectl(t, "describe", "pod", "stuck"),
		`Status: +Pending`, `Reason: +ErrImageNeverPull`, `Warning +ErrImageNeverPull .*`, `Ready +False`)
	wantLines(t, "pod crash", s.kubectl(t, "describe", "pod", "crash"),
		`Last State: +Terminated`, `Exit Code: +3`, `Restart Count: +[1-9].*`, `Warning +BackOff .*`)

	images := s.kubectl(t, "get", "node", s.node.Name, "-o", "jsonpath={.status.images[*].names}")
	for _, image := range []string{sampleImage, toolsImage} {
		if !strings.Contains(images, image) {
			t.Errorf("the node's images are %s; %s isn't among them", images, image)
		}
	}
	wantLines(t, "kubectl get nodes", s.kubectl(t, "get", "nodes", "-o", "wide"), `main +Ready .* `+regexp.QuoteMeta(here.IP)+` .* containerd://.*`)
	s.awaitPod(t, "crash", "is shown as it is", func(pod *corev1.Pod) error {
		c := pod.Status.ContainerStatuses[0]
		return when(c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" && c.LastTerminationState.Terminated.ExitCode == 3)
	})
}

// wantLines checks that there are lines that start or end, without blanks, as the patterns require.
func wantLines(t *testing.T, what, text string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(`(?m)(^|\s)` + pattern + `\s*$`).MatchString(text) {
			t.Errorf("%s has no line %q:\n%s", what, pattern, text)
		}
	}
}
