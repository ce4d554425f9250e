package usage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/test/rig"
)

// deployment returns a Deployment of the sample program, whose pods end at once on SIGTERM.
func deployment(name string, replicas int, podSpec string) string {
	if podSpec != "" {
		podSpec += ", "
	}
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]q}, spec: {replicas: %[2]d, selector: {matchLabels: {app: %[1]q}},
template: {metadata: {labels: {app: %[1]q}}, spec: {%[3]sterminationGracePeriodSeconds: 5, containers: [{name: main, image: %[4]q, %[5]s}]}}}}`,
		name, replicas, podSpec, sampleImage, sample("sleep"))
}

// staticPod returns the manifest of a pod that prints its version and runs on. It is YAML that starts with a
// brace, which a kubelet reads as JSON if it is in a file.
func staticPod(namespace, version string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: %q, labels: {version: %q}}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: %q, %s}]}
`, namespace, version, sampleImage, sample("print", "version", version))
}

// kubectl drain removes all pods from the node except DaemonSet pods and static pods. After uncordon it is used
// again.
func TestDrain(t *testing.T) {
	n := newNode(t, "drain")
	s := newSpace(t, n)
	n.addManifest(t, "static", staticPod(s.name, "1"))
	s.awaitReady(t, "static-drain")
	s.apply(t, deployment("web", 2, "volumes: [{name: scratch, emptyDir: {}}]"))
	s.apply(t, `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}},
template: {metadata: {labels: {app: agent}}, spec: {nodeSelector: {kubernetes.io/hostname: drain}, terminationGracePeriodSeconds: 1,
containers: [{name: main, image: "`+sampleImage+`", `+idle+`}]}}}}`)
	s.kubectl(t, "rollout", "status", "deployment/web", timeout)
	s.kubectl(t, "rollout", "status", "daemonset/agent", timeout)

	said := s.kubectl(t, "drain", n.Name, "--ignore-daemonsets", "--delete-emptydir-data", timeout)
	if !strings.Contains(said, "node/drain drained") {
		t.Errorf("kubectl drain said %q", said)
	}
	s.awaitPods(t, "only the DaemonSet's and the static pod are on the node", func(pods map[string]*corev1.Pod) error {
		for name, pod := range pods {
			stays := strings.HasPrefix(name, "agent-") || name == "static-drain"
			if stays != isReady(pod) || !stays && pod.Spec.NodeName != "" {
				return fmt.Errorf("pod %s on node %q is %s", name, pod.Spec.NodeName, describe(pod))
			}
		}
		return when(len(pods) == 4)
	})
	wantLines(t, "kubectl get nodes", s.kubectl(t, "get", "nodes"), `drain +Ready,SchedulingDisabled .*`)
	s.kubectl(t, "uncordon", n.Name)
	s.kubectl(t, "rollout", "status", "deployment/web", timeout)
	n.removeManifest(t, "static")
	s.awaitGone(t, "static-drain")
}

// The eviction API respects a PodDisruptionBudget, and ends the pod as a deletion does.
func TestEvictionAPI(t *testing.T) {
	s := newSpace(t)
	s.apply(t, deployment("web", 2, ""))
	s.apply(t, `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}`)
	s.kubectl(t, "rollout", "status", "deployment/web", timeout)
	s.kubectl(t, "wait", "--for=jsonpath={.status.currentHealthy}=2", "pdb/web", timeout)
	victim := s.ofImage(t, sampleImage, 2)[0]
	evict := func() error {
		return s.site.Client.PolicyV1().Evictions(s.name).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: victim, Namespace: s.name}})
	}
	if err := evict(); !apierrors.IsTooManyRequests(err) {
		t.Errorf("an eviction beyond the budget: %v", err)
	}
	w := rig.Get(s.site.Client.CoreV1().Pods(s.name).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + victim}))(t)
	defer w.Stop()
	s.kubectl(t, "patch", "pdb/web", "-p", `{"spec":{"minAvailable":1}}`)
	s.kubectl(t, "wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/web", timeout)
	rig.Must(t, evict())
	s.awaitGone(t, victim)
	s.ofImage(t, sampleImage, 2)
	var reason string
	var code int32 = -1
	for event := range w.ResultChan() {
		pod := event.Object.(*corev1.Pod)
		if c := podCondition(pod, corev1.DisruptionTarget); c != nil {
			reason = c.Reason
		}
		if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Terminated != nil {
			code = pod.Status.ContainerStatuses[0].State.Terminated.ExitCode
		}
		if event.Type == "DELETED" {
			break
		}
	}
	if reason != "EvictionByEvictionAPI" || code != 143 {
		t.Errorf("the pod went with the reason %q and its container with %d; want EvictionByEvictionAPI and 143", reason, code)
	}
}

// A NoExecute taint ends the pods that don't tolerate it, ends later the pods that tolerate it for a time, and
// ends no others.
func TestTaints(t *testing.T) {
	n := newNode(t, "taints")
	s := newSpace(t, n)
	tolerate := "tolerations: [{key: out, operator: Exists, effect: NoExecute%s}], terminationGracePeriodSeconds: 1"
	s.applyPod(t, "goes", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	s.applyPod(t, "goes-later", sampleImage, idle, fmt.Sprintf(tolerate, ", tolerationSeconds: 5"))
	s.applyPod(t, "stays", sampleImage, idle, fmt.Sprintf(tolerate, ""))
	for _, name := range []string{"goes", "goes-later", "stays"} {
		s.awaitReady(t, name)
	}
	began := time.Now()
	s.kubectl(t, "taint", "node", n.Name, "out=of-order:NoExecute")
	pods := s.awaitPods(t, "the pod that doesn't tolerate it is gone", func(pods map[string]*corev1.Pod) error { return when(pods["goes"] == nil) })
	if took := time.Since(began); took < 4*time.Second && !isReady(pods["goes-later"]) {
		t.Errorf("after %v, the pod that tolerates it for 5 s is %s", took, describe(pods["goes-later"]))
	}
	pods = s.awaitPods(t, "the pod that tolerated it for 5 s is gone", func(pods map[string]*corev1.Pod) error { return when(pods["goes-later"] == nil) })
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("the pod that tolerates it for 5 s is gone after %v", took)
	}
	if !isReady(pods["stays"]) {
		t.Errorf("the pod that tolerates it is %s", describe(pods["stays"]))
	}
	s.kubectl(t, "taint", "node", n.Name, "out-")
}

// A Node object that is deleted is created again, with its lease, and the pods are not affected.
func TestNodeDeletedAndBack(t *testing.T) {
	n := newNode(t, "deleted")
	s := newSpace(t, n)
	s.applyPod(t, "box", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	before := s.awaitReady(t, "box")
	old := types.UID(s.kubectl(t, "get", "node", n.Name, "-o", "jsonpath={.metadata.uid}"))
	s.kubectl(t, "delete", "node", n.Name)
	nodes := rig.Get(await(t.Context(), here.nodes(), "there is another Node object", func(nodes map[string]*corev1.Node) error {
		return when(nodes[n.Name] != nil && nodes[n.Name].UID != old)
	}))(t)
	rig.Must(t, n.AwaitReady(t.Context()))
	rig.Get(await(t.Context(), here.leases(), "its lease is the new Node's", func(leases map[string]*coordinationv1.Lease) error {
		lease := leases[n.Name]
		return when(lease != nil && len(lease.OwnerReferences) == 1 && lease.OwnerReferences[0].UID == nodes[n.Name].UID)
	}))(t)
	after := s.awaitReady(t, "box")
	if got, want := after.Status.ContainerStatuses[0], before.Status.ContainerStatuses[0]; got.ContainerID != want.ContainerID || after.UID != before.UID {
		t.Errorf("the pod's container was %+v and is %+v", want, got)
	}
}

// Killed daemons, and a short outage of the API server, change nothing for the pods. What happened meanwhile is
// reported.
func TestOutages(t *testing.T) {
	n := newNode(t, "outages")
	s := newSpace(t, n)
	s.applyPod(t, "box", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	s.applyPod(t, "brief", toolsImage, shell("while [ ! -e /scratch/end ]; do /sample sleep 1; done; exit 6")+", volumeMounts: [{name: work, mountPath: /scratch}]",
		fmt.Sprintf("restartPolicy: Never, volumes: [{name: work, hostPath: {path: %q, type: DirectoryOrCreate}}]", n.Path("work")))
	before := s.awaitReady(t, "box")
	s.awaitReady(t, "brief")
	same := func(after string) {
		t.Helper()
		pod := s.awaitReady(t, "box")
		if got, want := pod.Status.ContainerStatuses[0].ContainerID, before.Status.ContainerStatuses[0].ContainerID; got != want {
			t.Errorf("after %s the container is %s; want %s still", after, got, want)
		}
		rig.Must(t, untilNil(t, "exec works after "+after, func() error {
			_, err := s.try(t.Context(), "", "exec", "box", "--", "/sample", "exit", "0")
			return err
		}))
	}
	restart(t, n.Podexecd)
	rig.Must(t, n.AwaitReady(t.Context()))
	same("podexecd was killed")
	restart(t, n.Podconfigd)
	same("podconfigd was killed")
	here.Plane.Kill()
	n.write(t, "work/end", "")
	rig.Must(t, here.Plane.Resume(t.Context()))
	pod := s.awaitPod(t, "brief", "has failed", func(pod *corev1.Pod) error { return when(pod.Status.Phase == corev1.PodFailed) })
	if code := pod.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 6 {
		t.Errorf("what ended while the API server was away ended with %d; want 6", code)
	}
	same("the API server was away")
}
