package usage

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/rig"
)

// A deleted pod has its grace period and no longer. Without a grace period the pod is gone at once, and its
// container soon.
func TestDeleteGracePeriod(t *testing.T) {
	s := newSpace(t)
	for _, c := range []struct {
		name, container string
		flags           []string
		least, most     time.Duration
		code            int32
	}{
		{"force", sample("ignore-term"), []string{"--grace-period=0", "--force"}, 0, 5 * time.Second, 0},
		{"one-second", sample("ignore-term"), []string{"--grace-period=1"}, time.Second, 10 * time.Second, 137},
		{"slow", sample("on-term", "/dev/null", "ends", "8s", "0"), []string{"--grace-period=30"}, 8 * time.Second, 25 * time.Second, 0},
		{"quick", sample("sleep"), nil, 0, 10 * time.Second, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.applyPod(t, c.name, sampleImage, c.container, "")
			pod := s.awaitReady(t, c.name)
			w := rig.Get(s.site.Client.CoreV1().Pods(s.name).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + c.name}))(t)
			defer w.Stop()
			began := time.Now()
			s.kubectl(t, append([]string{"delete", "pod", c.name}, c.flags...)...)
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("it took %v; want %v to %v", took, c.least, c.most)
			}
			var last *corev1.Pod
			for event := range w.ResultChan() {
				if last = event.Object.(*corev1.Pod); event.Type == "DELETED" {
					break
				}
			}
			id := pod.Status.ContainerStatuses[0].ContainerID
			if c.name == "force" { // the API server doesn't wait
				rig.Must(t, s.node.untilEnded(t, id))
				return
			}
			if s.node.running(t, id) {
				t.Error("its container still runs")
			}
			if ended := last.Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != c.code {
				t.Errorf("the last reported state of its container is %+v; want that it ended with %d", last.Status.ContainerStatuses[0].State, c.code)
			}
		})
	}
}

// A readiness gate keeps a pod from being ready until a client sets its condition, which the node doesn't
// change.
func TestReadinessGates(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "gated", sampleImage, idle, `terminationGracePeriodSeconds: 1, readinessGates: [{conditionType: example.com/load-balancer}]`)
	pod := s.awaitPod(t, "gated", "has ready containers", func(pod *corev1.Pod) error {
		c := podCondition(pod, corev1.ContainersReady)
		return when(c != nil && c.Status == corev1.ConditionTrue)
	})
	if c := podCondition(pod, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("without the gate's condition it is %+v", c)
	}
	set := func(status string) {
		t.Helper()
		s.kubectl(t, "patch", "pod", "gated", "--subresource=status", "-p",
			`{"status":{"conditions":[{"type":"example.com/load-balancer","status":"`+status+`"}]}}`)
	}
	set("True")
	s.kubectl(t, "wait", "--for=condition=Ready", "pod/gated", timeout)
	// The node's later patches of the status keep the condition.
	_, _ = s.try(t.Context(), "", "exec", "gated", "--", "/sample", "exit", "0")
	set("False")
	pod = s.awaitPod(t, "gated", "isn't ready any more", func(pod *corev1.Pod) error { return when(!isReady(pod)) })
	if c := podCondition(pod, "example.com/load-balancer"); c == nil || c.Status != corev1.ConditionFalse {
		t.Errorf("the gate's condition is %+v", c)
	}
	if c := podCondition(pod, corev1.ContainersReady); c.Status != corev1.ConditionTrue {
		t.Errorf("the containers are %+v", c)
	}
}

// The API server shows static pods as mirror pods: logs and exec work, deletions have no effect, and changes of
// the manifest replace them.
func TestMirrorPods(t *testing.T) {
	n := newNode(t, "mirrors")
	s := newSpace(t, n)
	const name = "static-mirrors"
	n.addManifest(t, "static", staticPod(s.name, "1"))
	first := s.awaitReady(t, name)
	if owner := metav1.GetControllerOf(first); first.Annotations[corev1.MirrorPodAnnotationKey] == "" || owner == nil || owner.Kind != "Node" || owner.Name != n.Name {
		t.Errorf("its annotations are %v, its owner %v", first.Annotations, owner)
	}
	if got := s.kubectl(t, "logs", name); got != "version 1\n" {
		t.Errorf("its log is %q", got)
	}
	if _, err := s.try(t.Context(), "", "exec", name, "--", "/sample", "exit", "7"); exitCode(err) != 7 {
		t.Errorf("exit code 7 comes as %v", err)
	}
	s.kubectl(t, "delete", "pod", name, "--wait=false")
	second := s.awaitPod(t, name, "is there again", func(pod *corev1.Pod) error { return when(isReady(pod) && pod.UID != first.UID) })
	if got, want := second.Status.ContainerStatuses[0].ContainerID, first.Status.ContainerStatuses[0].ContainerID; got != want {
		t.Errorf("a deletion at the API server replaced the container %s by %s", want, got)
	}
	n.addManifest(t, "static", staticPod(s.name, "2"))
	third := s.awaitPod(t, name, "is the changed one", func(pod *corev1.Pod) error { return when(isReady(pod) && pod.Labels["version"] == "2") })
	if third.UID == second.UID || third.Annotations[corev1.MirrorPodAnnotationKey] == second.Annotations[corev1.MirrorPodAnnotationKey] {
		t.Error("it is the mirror pod of the old version")
	}
	if got := s.kubectl(t, "logs", name); got != "version 2\n" {
		t.Errorf("its log is %q", got)
	}
	restart(t, n.Podexecd)
	rig.Must(t, n.AwaitReady(t.Context()))
	n.removeManifest(t, "static")
	s.awaitGone(t, name)
	if n.running(t, third.Status.ContainerStatuses[0].ContainerID) {
		rig.Must(t, n.untilEnded(t, third.Status.ContainerStatuses[0].ContainerID))
	}
}

// A pod's environment has its namespace's Services, unless enableServiceLinks is false; it always has the API
// server's.
func TestServiceLinks(t *testing.T) {
	s := newSpace(t)
	s.apply(t, `{apiVersion: v1, kind: Service, metadata: {name: my-db}, spec: {selector: {app: db}, ports: [{name: sql, port: 5432}]}}`)
	s.apply(t, `{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {app: db}, ports: [{port: 1}]}}`)
	ip := s.kubectl(t, "get", "service", "my-db", "-o", "jsonpath={.spec.clusterIP}")
	for _, c := range []struct {
		name, spec string
		linked     bool
	}{{"linked", "enableServiceLinks: true", true}, {"alone", "enableServiceLinks: false", false}} {
		s.applyPod(t, c.name, sampleImage, idle, "terminationGracePeriodSeconds: 1, "+c.spec)
		s.awaitReady(t, c.name)
		env := strings.ReplaceAll(s.kubectl(t, "exec", c.name, "--", "/sample", "cat", "/proc/1/environ"), "\x00", "\n")
		if !strings.Contains(env, "KUBERNETES_SERVICE_HOST=10.0.0.1\n") {
			t.Errorf("pod %s has no API server in its environment: %s", c.name, env)
		}
		for _, line := range []string{
			"MY_DB_SERVICE_HOST=" + ip, "MY_DB_SERVICE_PORT=5432", "MY_DB_SERVICE_PORT_SQL=5432", "MY_DB_PORT=tcp://" + ip + ":5432",
			"MY_DB_PORT_5432_TCP=tcp://" + ip + ":5432", "MY_DB_PORT_5432_TCP_ADDR=" + ip, "MY_DB_PORT_5432_TCP_PORT=5432", "MY_DB_PORT_5432_TCP_PROTO=tcp",
		} {
			if strings.Contains(env, line+"\n") != c.linked {
				t.Errorf("pod %s has %s is %t; want %t: %s", c.name, line, !c.linked, c.linked, env)
			}
		}
		if strings.Contains(env, "HEADLESS") {
			t.Errorf("pod %s has a Service without an address: %s", c.name, env)
		}
	}
}

// A RuntimeClass selects the runtime's handler and adds its overhead. A handler that the runtime doesn't have
// keeps the pod from starting.
func TestRuntimeClass(t *testing.T) {
	s := newSpace(t)
	class := `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: %s}, handler: %s, overhead: {podFixed: {memory: 16Mi}}}`
	s.apply(t, fmt.Sprintf(class, "usual", "runc"))
	s.apply(t, fmt.Sprintf(class, "unknown", "no-such-handler"))
	t.Cleanup(func() { here.kubectl(t, "delete", "runtimeclass", "usual", "unknown") })
	s.applyPod(t, "good", sampleImage, idle, "runtimeClassName: usual, terminationGracePeriodSeconds: 1")
	s.applyPod(t, "bad", sampleImage, idle, "runtimeClassName: unknown, terminationGracePeriodSeconds: 1")
	pod := s.awaitReady(t, "good")
	if memory := pod.Spec.Overhead[corev1.ResourceMemory]; memory.String() != "16Mi" {
		t.Errorf("its overhead is %v", pod.Spec.Overhead)
	}
	if event := s.awaitEvent(t, "bad", "FailedCreatePodSandBox"); !strings.Contains(event.Message, "no-such-handler") {
		t.Errorf("the event says %q", event.Message)
	}
	s.awaitPod(t, "bad", "waits", func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodPending {
			return errors.New("it doesn't")
		}
		return nil
	})
}
