package downward

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// list reads "cpu=100m memory=1Gi".
func list(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, item := range strings.Fields(text) {
		name, amount, _ := strings.Cut(item, "=")
		out[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

func container(name, requests, limits string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}}
}

func TestResource(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	sidecar := container("sidecar", "memory=10Mi", "memory=20Mi")
	sidecar.RestartPolicy = &always
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{container("init", "cpu=100m", "cpu=1100m"), sidecar},
		Containers: []v1.Container{
			container("main", "cpu=1200m memory=100Mi ephemeral-storage=1k hugepages-2Mi=4Mi",
				"cpu=9 memory=1Gi ephemeral-storage=1500 hugepages-2Mi=4Mi"),
			container("bare", "", ""),
			container("zero", "", "cpu=0 memory=0"),
		},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
	}}
	facts := Facts{Allocatable: list("cpu=3500m memory=8Gi ephemeral-storage=100Gi hugepages-2Mi=1Gi")}
	for _, tc := range []struct{ container, resource, divisor, want string }{
		{"main", "limits.cpu", "", "9"},
		{"main", "limits.cpu", "1m", "9000"},
		{"main", "limits.memory", "", "1073741824"},
		{"main", "limits.memory", "1Gi", "1"},
		{"main", "limits.memory", "1M", "1074"}, // 1073.7
		{"main", "limits.ephemeral-storage", "", "1500"},
		{"main", "limits.ephemeral-storage", "1k", "2"},
		{"main", "limits.hugepages-2Mi", "1Mi", "4"},
		{"main", "requests.cpu", "", "2"}, // 1.2 cpus
		{"main", "requests.cpu", "100m", "12"},
		{"main", "requests.cpu", "0", "2"},
		{"main", "requests.memory", "1Mi", "100"},
		{"main", "requests.memory", "1Gi", "1"},
		{"main", "requests.memory", "1m", "104857600"}, // memory has no parts of a byte
		{"main", "requests.ephemeral-storage", "", "1000"},
		{"main", "requests.hugepages-2Mi", "", "4194304"},
		{"main", "limits.hugepages-1Gi", "", "0"},
		{"init", "requests.cpu", "", "1"},
		{"init", "limits.cpu", "", "2"},
		{"init", "limits.memory", "1Gi", "8"},
		{"sidecar", "limits.memory", "1Mi", "20"},
		{"bare", "limits.cpu", "", "4"}, // 3.5 cpus
		{"bare", "limits.cpu", "1m", "3500"},
		{"bare", "limits.memory", "1Gi", "8"},
		{"bare", "limits.ephemeral-storage", "1Gi", "100"},
		{"bare", "limits.hugepages-2Mi", "", "0"},
		{"bare", "requests.cpu", "", "0"},
		{"bare", "requests.memory", "1Mi", "0"},
		{"zero", "limits.cpu", "1m", "3500"},
		{"zero", "limits.memory", "1Gi", "8"},
		{"debug", "limits.memory", "1Gi", "8"},
		{"debug", "requests.cpu", "", "0"},
	} {
		sel := &v1.ResourceFieldSelector{Resource: tc.resource}
		if tc.divisor != "" {
			sel.Divisor = resource.MustParse(tc.divisor)
		}
		if got, err := Resource(pod, tc.container, sel, facts); err != nil || got != tc.want {
			t.Errorf("%s of %s by %q is %q, %v; want %s", tc.resource, tc.container, tc.divisor, got, err, tc.want)
		}
		sel.ContainerName = tc.container
		if got, err := Resource(pod, "main", sel, facts); err != nil || got != tc.want {
			t.Errorf("%s of %s by its name is %q, %v; want %s", tc.resource, tc.container, got, err, tc.want)
		}
	}
}

func TestResourceOfPodAsAWhole(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		Resources: &v1.ResourceRequirements{
			Limits: list("cpu=2 memory=0 ephemeral-storage=1Gi hugepages-2Mi=2Mi"), Requests: list("cpu=1"),
		},
		InitContainers: []v1.Container{container("init", "", "")},
		Containers:     []v1.Container{container("main", "", ""), container("own", "", "cpu=500m")},
	}}
	facts := Facts{Allocatable: list("cpu=4 memory=8Gi ephemeral-storage=100Gi")}
	for _, tc := range []struct{ container, resource, want string }{
		{"main", "limits.cpu", "2"},
		{"init", "limits.cpu", "2"},
		{"own", "limits.cpu", "1"},
		{"main", "limits.memory", "8589934592"},
		{"main", "limits.ephemeral-storage", "107374182400"},
		{"main", "limits.hugepages-2Mi", "0"},
		{"main", "requests.cpu", "0"},
	} {
		if got, err := Resource(pod, tc.container, &v1.ResourceFieldSelector{Resource: tc.resource}, facts); err != nil || got != tc.want {
			t.Errorf("%s of %s is %q, %v; want %s", tc.resource, tc.container, got, err, tc.want)
		}
	}
	if _, changed := facts.Allocatable["hugepages-2Mi"]; changed || facts.Allocatable.Cpu().String() != "4" {
		t.Errorf("what the node has was changed to %v", facts.Allocatable)
	}
}

func TestResourceErrors(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("main", "", "")}}}
	for _, tc := range []struct {
		sel  v1.ResourceFieldSelector
		want string
	}{
		{v1.ResourceFieldSelector{ContainerName: "gone", Resource: "limits.cpu"}, "container gone not found"},
		{v1.ResourceFieldSelector{Resource: "limits.pods"}, "unsupported container resource: limits.pods"},
		{v1.ResourceFieldSelector{Resource: "requests.example.org/gpu"}, "unsupported container resource"},
		{v1.ResourceFieldSelector{Resource: "usage.cpu"}, "unsupported container resource: usage.cpu"},
		{v1.ResourceFieldSelector{Resource: "cpu"}, "unsupported container resource"},
		{v1.ResourceFieldSelector{}, "unsupported container resource"},
		{v1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: resource.MustParse("-1")}, "divisor"},
	} {
		if got, err := Resource(pod, "main", &tc.sel, Facts{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v is %q, %v; want an error with %q", tc.sel, got, err, tc.want)
		}
	}
}

// TestCountedRoundsUp: n divisors hold the amount, and n-1 don't.
func TestCountedRoundsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milli := rapid.Bool().Draw(t, "cpu")
		name, quantity := v1.ResourceMemory, func(v int64) resource.Quantity { return *resource.NewQuantity(v, resource.BinarySI) }
		if milli {
			name, quantity = v1.ResourceCPU, func(v int64) resource.Quantity { return *resource.NewMilliQuantity(v, resource.DecimalSI) }
		}
		amount := rapid.Int64Range(0, 1<<62).Draw(t, "amount")
		divisor := rapid.Int64Range(1, 1<<62).Draw(t, "divisor")
		text, err := counted(name, quantity(amount), quantity(divisor))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		times := func(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(divisor)) }
		if times(n).Cmp(big.NewInt(amount)) < 0 || amount > 0 && times(n-1).Cmp(big.NewInt(amount)) >= 0 {
			t.Fatalf("%d divisors of %d for %d", n, divisor, amount)
		}
	})
}
