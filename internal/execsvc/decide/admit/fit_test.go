package admit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// asks returns a container with requests, given as name, amount, name, amount.
func asks(pairs ...string) v1.Container {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: list}}
}

func podOf(uid string, containers ...v1.Container) *v1.Pod {
	return other(uid, v1.PodSpec{Containers: containers})
}

func listOf(pairs ...string) v1.ResourceList { return asks(pairs...).Resources.Requests }

func TestCheckCountsResources(t *testing.T) {
	node := Node{Allocatable: listOf(
		"cpu", "2", "memory", "1Gi", "ephemeral-storage", "1Gi", "hugepages-2Mi", "4Mi", "example.com/gpu", "1", "pods", "3",
	)}
	others := []*v1.Pod{
		podOf("a", asks("cpu", "1600m", "memory", "512Mi", "hugepages-2Mi", "2Mi")), podOf("b", asks("example.com/gpu", "1")),
	}
	for name, c := range map[string]struct {
		pod     *v1.Pod
		reason  string
		message string
		stays   bool
	}{
		"the rest of the node": {pod: podOf("x", asks("cpu", "400m", "memory", "512Mi", "ephemeral-storage", "1Gi", "hugepages-2Mi", "2Mi"))},
		"nothing":              {pod: podOf("x")},
		"cpu": {
			pod: podOf("x", asks("cpu", "500m")), reason: "OutOfcpu", message: "cpu, requested: 500, used: 1600, capacity: 2000",
		},
		"cpu beyond the capacity": {
			pod: podOf("x", asks("cpu", "3")), reason: "OutOfcpu", message: "cpu, requested: 3000, used: 1600, capacity: 2000", stays: true,
		},
		"memory": {
			pod:    podOf("x", asks("memory", "513Mi")),
			reason: "OutOfmemory", message: "memory, requested: 537919488, used: 536870912, capacity: 1073741824",
		},
		"ephemeral storage": {
			pod: podOf("x", asks("ephemeral-storage", "2Gi")), reason: "OutOfephemeral-storage",
			message: "ephemeral-storage, requested: 2147483648, used: 0, capacity: 1073741824", stays: true,
		},
		"huge pages": {
			pod:    podOf("x", asks("hugepages-2Mi", "4Mi")),
			reason: "OutOfhugepages-2Mi", message: "hugepages-2Mi, requested: 4194304, used: 2097152, capacity: 4194304",
		},
		"huge pages of a size that the node does not have": {
			pod:    podOf("x", asks("hugepages-1Gi", "1Gi")),
			reason: "OutOfhugepages-1Gi", message: "hugepages-1Gi, requested: 1073741824, used: 0, capacity: 0", stays: true,
		},
		"a device that another pod has": {
			pod:    podOf("x", asks("example.com/gpu", "1")),
			reason: "OutOfexample.com/gpu", message: "example.com/gpu, requested: 1, used: 1, capacity: 1",
		},
		"an unknown device":                      {pod: podOf("x", asks("example.com/tpu", "1"))},
		"an unknown device of an init container": {pod: other("x", v1.PodSpec{InitContainers: []v1.Container{asks("example.com/tpu", "1")}})},
		"an unknown native resource": {
			pod:    podOf("x", asks("kubernetes.io/batch-cpu", "1")),
			reason: "OutOfkubernetes.io/batch-cpu", message: "kubernetes.io/batch-cpu, requested: 1, used: 0, capacity: 0", stays: true,
		},
		"an init container": {
			pod:    other("x", v1.PodSpec{InitContainers: []v1.Container{asks("cpu", "450m")}, Containers: []v1.Container{asks("cpu", "300m")}}),
			reason: "OutOfcpu", message: "cpu, requested: 450, used: 1600, capacity: 2000",
		},
		"the pod's own resources": {
			pod: other("x", v1.PodSpec{
				Resources: &v1.ResourceRequirements{Requests: listOf("cpu", "450m")}, Containers: []v1.Container{asks("cpu", "100m")},
			}),
			reason: "OutOfcpu", message: "cpu, requested: 450, used: 1600, capacity: 2000",
		},
		"overhead": {
			pod:    other("x", v1.PodSpec{Overhead: listOf("cpu", "100m"), Containers: []v1.Container{asks("cpu", "400m")}}),
			reason: "OutOfcpu", message: "cpu, requested: 500, used: 1600, capacity: 2000",
		},
	} {
		got := Check(c.pod, node, others)
		if c.reason != "" {
			wantRejection(t, name, got, c.reason, "Node didn't have enough resource: "+c.message, !c.stays)
		} else if len(got.Rejected) > 0 {
			t.Errorf("%s: rejected for %v", name, got.Rejected)
		}
		if len(got.Preempt) > 0 {
			t.Errorf("%s: preempts %v", name, got.Preempt)
		}
	}
}

func TestCheckCountsPods(t *testing.T) {
	node := Node{Allocatable: listOf("pods", "2")}
	if got := Check(podOf("x"), node, []*v1.Pod{podOf("a")}); len(got.Rejected) > 0 {
		t.Errorf("the second of two is rejected for %v", got.Rejected)
	}
	got := Check(podOf("x"), node, []*v1.Pod{podOf("a"), podOf("b")})
	wantRejection(t, "the third", got, "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2", true)
}

// All shortages are returned, in the kubelet's order. If the end of other pods can't solve one of them, Transient is
// false.
func TestCheckReturnsAllShortages(t *testing.T) {
	node := Node{Allocatable: listOf("pods", "1", "cpu", "1", "memory", "1Gi"), Labels: map[string]string{}}
	pod := podOf("x", asks("memory", "1Gi", "cpu", "1", "hugepages-1Gi", "1Gi"))
	pod.Spec.NodeSelector = map[string]string{"a": "b"}
	got := Check(pod, node, []*v1.Pod{podOf("a", asks("memory", "1Mi", "cpu", "1m"))})
	var reasons []string
	for _, r := range got.Rejected {
		reasons = append(reasons, r.Reason)
	}
	want := []string{"OutOfpods", "OutOfcpu", "OutOfmemory", "OutOfhugepages-1Gi", "NodeAffinity"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if got.Transient() {
		t.Error("it is said to pass when others end")
	}
}

func TestCheckPlace(t *testing.T) {
	node := Node{
		Name: "n1", Labels: map[string]string{"disk": "ssd", v1.LabelArchStable: "amd64"},
		Taints: []v1.Taint{{Key: "down", Effect: v1.TaintEffectNoExecute}, {Key: "busy", Effect: v1.TaintEffectNoSchedule}},
	}
	tolerant := []v1.Toleration{{Key: "down", Operator: v1.TolerationOpExists}}
	required := func(key string, op v1.NodeSelectorOperator, values ...string) *v1.Affinity {
		return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}},
		}}}
	}
	const (
		affinity = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
		taint    = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
	)
	for name, c := range map[string]struct {
		spec            v1.PodSpec
		reason, message string
	}{
		"tolerant":            {spec: v1.PodSpec{Tolerations: tolerant, NodeName: "n1"}},
		"not tolerant":        {reason: TaintToleration, message: taint},
		"tolerant of another": {spec: v1.PodSpec{Tolerations: []v1.Toleration{{Key: "busy"}}}, reason: TaintToleration, message: taint},
		"another architecture": {
			spec:   v1.PodSpec{NodeSelector: map[string]string{v1.LabelArchStable: "arm64"}, Tolerations: tolerant},
			reason: NodeAffinity, message: affinity,
		},
		"the architecture": {spec: v1.PodSpec{NodeSelector: map[string]string{v1.LabelArchStable: "amd64"}, Tolerations: tolerant}},
		"affinity":         {spec: v1.PodSpec{Affinity: required("disk", v1.NodeSelectorOpIn, "hdd", "ssd"), Tolerations: tolerant}},
		"affinity to another": {
			spec:   v1.PodSpec{Affinity: required("disk", v1.NodeSelectorOpNotIn, "ssd"), Tolerations: tolerant},
			reason: NodeAffinity, message: affinity,
		},
		"affinity to a bad number": {
			spec:   v1.PodSpec{Affinity: required("disk", v1.NodeSelectorOpGt, "x"), Tolerations: tolerant},
			reason: NodeAffinity, message: affinity,
		},
		"pod affinity is ignored": {
			spec: v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{}}, Tolerations: tolerant},
		},
		"another node": {
			spec:   v1.PodSpec{NodeName: "n2", Tolerations: tolerant},
			reason: NodeName, message: "Predicate NodeName failed: node(s) didn't match the requested node name",
		},
	} {
		got := Check(other("x", c.spec), node, nil)
		if c.reason != "" {
			wantRejection(t, name, got, c.reason, c.message, false)
		} else if len(got.Rejected) > 0 {
			t.Errorf("%s: rejected for %v", name, got.Rejected)
		}
	}
}

// No taint repels a static pod. A pod of an API server that comes from another podconfigd isn't static.
func TestCheckIgnoresTaintsForStaticPods(t *testing.T) {
	node := Node{Taints: []v1.Taint{{Key: "down", Effect: v1.TaintEffectNoExecute}}}
	for _, c := range []struct {
		source, way string
		static      bool
	}{
		{source: "file", static: true}, {source: "http:east", static: true}, {source: "api"}, {source: ""},
		{source: "relay", way: "second(2)/relay:x,first(1)/file:b", static: true},
		{source: "relay:x", way: "first(1)/api"},
	} {
		pod := podOf("x")
		pod.Annotations = map[string]string{"kubernetes.io/config.source": c.source, "podstream.io/relay-path": c.way}
		if got := Check(pod, node, nil); (len(got.Rejected) == 0) != c.static {
			t.Errorf("source %q by %q: rejected for %v", c.source, c.way, got.Rejected)
		}
	}
}

func TestCheckPorts(t *testing.T) {
	port := func(ip string, protocol v1.Protocol, port int32) v1.Container {
		return v1.Container{Name: "c", Ports: []v1.ContainerPort{{HostIP: ip, Protocol: protocol, HostPort: port, ContainerPort: 1}}}
	}
	sidecar, initial := port("", "TCP", 90), port("", "TCP", 91)
	sidecar.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	others := []*v1.Pod{
		podOf("a", port("", "TCP", 80)), podOf("b", port("10.0.0.1", "UDP", 53)),
		other("c", v1.PodSpec{InitContainers: []v1.Container{sidecar, initial}}),
		podOf("d", v1.Container{Ports: []v1.ContainerPort{{ContainerPort: 70}}}),
	}
	for name, c := range map[string]struct {
		wants    v1.Container
		conflict bool
	}{
		"the same":                     {port("", "TCP", 80), true},
		"the default protocol":         {port("", "", 80), true},
		"one address of all":           {port("10.0.0.1", "TCP", 80), true},
		"all addresses":                {port("0.0.0.0", "TCP", 80), true},
		"another protocol":             {port("", "UDP", 80), false},
		"another port":                 {port("", "TCP", 81), false},
		"the same address":             {port("10.0.0.1", "UDP", 53), true},
		"another address":              {port("10.0.0.2", "UDP", 53), false},
		"all addresses, by a wildcard": {port("0.0.0.0", "UDP", 53), true},
		"a sidecar's":                  {port("", "TCP", 90), true},
		"an init container's":          {port("", "TCP", 91), false},
		"no port of the node":          {port("", "TCP", 0), false},
	} {
		got := Check(podOf("x", c.wants), Node{}, others)
		if c.conflict {
			wantRejection(t, name, got, NodePorts, "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports", true)
		} else if len(got.Rejected) > 0 {
			t.Errorf("%s: rejected for %v", name, got.Rejected)
		}
	}
}

// An admitted pod is not rejected, neither by a smaller node nor for another label. Its lacks are returned.
func TestCheckNeverRejectsAnAdmittedPod(t *testing.T) {
	pod := podOf("x", asks("cpu", "2"))
	pod.Spec.NodeSelector, pod.Spec.NodeName = map[string]string{"a": "b"}, "n2"
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}}
	node := Node{
		Name: "n1", Labels: map[string]string{}, Allocatable: listOf("cpu", "1", "pods", "0"),
		Taints: []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}},
	}
	neighbour := podOf("a", v1.Container{Ports: []v1.ContainerPort{{HostPort: 80}}})
	if got := Check(pod, node, []*v1.Pod{neighbour}); len(got.Rejected) != 6 {
		t.Errorf("before it is admitted it is rejected for %v; want all six reasons", got.Rejected)
	}
	former := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "x"}}
	if diff := cmp.Diff(Verdict{}, Check(pod, node, []*v1.Pod{neighbour, former})); diff != "" {
		t.Errorf("once it is admitted (-want +got):\n%s", diff)
	}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{}}
	lack := Lack{Reason: events.FailedPrepareResources, Message: "spec.resourceClaims: "}
	wantLack(t, "changed", Check(pod, node, []*v1.Pod{neighbour, former}), lack)
}
