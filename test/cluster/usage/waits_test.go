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

// lacking is a ReplicaSet with one pod, which needs something that the node can't provide.
type lacking struct {
	name string
	// spec has more fields of the pod's spec, container of its container, both in YAML's flow style without the
	// braces.
	spec, container string
	// reason is the event's reason, and text a part of its message. Without a reason, the pod must run.
	reason, text string
}

// mounting returns one whose container mounts a volume of that source.
func mounting(name, source string) lacking {
	field, _, _ := strings.Cut(source, ":")
	return lacking{
		name: name, spec: "volumes: [{name: data, " + source + "}]", container: "volumeMounts: [{name: data, mountPath: /data}]",
		reason: "FailedMount", text: "spec.volumes[0]." + field,
	}
}

// lackings returns the ones that apply to the node.
func lackings(t *testing.T, node *corev1.Node) []lacking {
	t.Helper()
	all := []lacking{
		mounting("claim", "persistentVolumeClaim: {claimName: nothing}"),
		mounting("csi", "csi: {driver: csi.invalid}"),
		mounting("ephemeral", "ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}}"),
		mounting("cephfs", "cephfs: {monitors: [ceph.invalid]}"),
		mounting("fc", "fc: {targetWWNs: ['50060e801049cfd1'], lun: 0}"),
		{
			name: "resource-claim", spec: "resourceClaims: [{name: gpu, resourceClaimName: nothing}]",
			reason: "FailedPrepareDynamicResources", text: "spec.resourceClaims",
		},
		{name: "handler", spec: "runtimeClassName: waits-unknown", reason: "FailedCreatePodSandBox", text: "no-such-handler"},
		{name: "device-plugin", container: `resources: {limits: {"example.com/waits": "1"}}`},
	}
	// Newer runtimes support these.
	users, recursive := false, false
	for _, h := range node.Status.RuntimeHandlers {
		if h.Name == "" && h.Features != nil {
			users = h.Features.UserNamespaces != nil && *h.Features.UserNamespaces
			recursive = h.Features.RecursiveReadOnlyMounts != nil && *h.Features.RecursiveReadOnlyMounts
		}
	}
	t.Logf("the runtime %s has user namespaces: %v, recursive read-only mounts: %v", node.Status.NodeInfo.ContainerRuntimeVersion, users, recursive)
	if !users {
		all = append(all, lacking{name: "users", spec: "hostUsers: false", reason: "FailedCreatePodSandBox", text: "spec.hostUsers"})
	}
	if !recursive {
		all = append(all, mounting("image", "image: {reference: '"+sampleImage+"'}"))
	}
	return all
}

// manifest returns its ReplicaSet. The pod has a node name, because the scheduler would not place most of them.
func (l lacking) manifest(node string) string {
	join := func(parts ...string) string {
		var out strings.Builder
		for _, part := range parts {
			if part != "" {
				out.WriteString(", " + part)
			}
		}
		return out.String()
	}
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: %[1]q}, spec: {replicas: 1, selector: {matchLabels: {app: %[1]q}},
template: {metadata: {labels: {app: %[1]q}}, spec: {nodeName: %[2]q, terminationGracePeriodSeconds: 1%[3]s,
containers: [{name: main, image: %[4]q%[5]s}]}}}}`, l.name, node, join(l.spec), sampleImage, join(idle, l.container))
}

// waitsFor is how long each pod must only wait.
const waitsFor = time.Minute

// TestUnsupportedWaits: a pod that needs something that the node can't provide waits, so that its ReplicaSet
// creates no other pod. An event has the reason. If the pod were Failed, the ReplicaSet would create another
// one at once, without end.
func TestUnsupportedWaits(t *testing.T) {
	s := newSpace(t)
	s.apply(t, `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: waits-unknown}, handler: no-such-handler}`)
	t.Cleanup(func() { here.kubectl(t, "delete", "runtimeclass", "waits-unknown") })
	rows := lackings(t, rig.Get(here.Client.CoreV1().Nodes().Get(t.Context(), s.node.Name, metav1.GetOptions{}))(t))
	for _, l := range rows {
		s.apply(t, l.manifest(s.node.Name))
	}
	// of returns the pods of one row.
	of := func(pods map[string]*corev1.Pod, l lacking) (found []*corev1.Pod) {
		for _, pod := range pods {
			if pod.Labels["app"] == l.name {
				found = append(found, pod)
			}
		}
		return found
	}
	pods := s.awaitPods(t, "each ReplicaSet has a pod", func(pods map[string]*corev1.Pod) error {
		for _, l := range rows {
			if len(of(pods, l)) == 0 {
				return fmt.Errorf("%s has none", l.name)
			}
		}
		return nil
	})
	_, err := awaitWithin(t.Context(), waitsFor, s.pods(), "a pod has failed, or another one was made", func(pods map[string]*corev1.Pod) error {
		for _, l := range rows {
			for _, pod := range of(pods, l) {
				if pod.Status.Phase == corev1.PodFailed {
					t.Errorf("%s: pod %s is %s", l.name, pod.Name, describe(pod))
					return nil
				}
			}
			if n := len(of(pods, l)); n != 1 {
				t.Errorf("%s has %d pods", l.name, n)
				return nil
			}
		}
		return errNo
	})
	if err == nil || !errors.Is(err, errNo) {
		t.Fatalf("not all pods have waited for %v: %v", waitsFor, err)
	}
	for _, l := range rows {
		s.wantWaits(t, l, of(pods, l)[0].Name)
	}
}

// wantWaits checks that the pod waits and has an event with the reason, or that it runs.
func (s *space) wantWaits(t *testing.T, l lacking, name string) {
	t.Helper()
	if l.reason == "" {
		s.awaitReady(t, name)
		return
	}
	pod := rig.Get(s.site.Client.CoreV1().Pods(s.name).Get(t.Context(), name, metav1.GetOptions{}))(t)
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("%s: pod %s is %s; want it Pending", l.name, name, describe(pod))
	}
	event := s.awaitEvent(t, name, l.reason)
	if !strings.Contains(event.Message, l.text) {
		t.Errorf("%s: the event %s says %q; want it to name %s", l.name, l.reason, event.Message, l.text)
	}
	t.Logf("%s: %s, %s: %s", l.name, pod.Status.Phase, event.Reason, event.Message)
}
