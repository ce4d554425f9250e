package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestAddresses(t *testing.T) {
	ready := func(ips ...string) func(*Input) {
		return func(i *Input) { i.Runtime.Sandboxes[0].IPs = ips }
	}
	for name, c := range map[string]struct {
		hosts  []string
		change func(*Input)
		pod    []string
		host   []string
	}{
		"one":                         {[]string{"192.0.2.1"}, ready("10.0.0.1"), []string{"10.0.0.1"}, []string{"192.0.2.1"}},
		"dual stack":                  {[]string{"192.0.2.1", "2001:db8::1"}, ready("10.0.0.1", "fd00::1"), []string{"10.0.0.1", "fd00::1"}, []string{"192.0.2.1", "2001:db8::1"}},
		"in the node's order":         {[]string{"2001:db8::1", "192.0.2.1"}, ready("10.0.0.1", "fd00::1"), []string{"fd00::1", "10.0.0.1"}, []string{"2001:db8::1", "192.0.2.1"}},
		"one for each family":         {[]string{"192.0.2.1", "192.0.2.2"}, ready("10.0.0.1", "10.0.0.2", "fd00::1"), []string{"10.0.0.1", "fd00::1"}, []string{"192.0.2.1"}},
		"the node's aren't known":     {nil, ready("fd00::1", "10.0.0.1"), []string{"10.0.0.1", "fd00::1"}, nil},
		"what isn't one is left out":  {[]string{"192.0.2.1"}, ready("", "nonsense", "10.0.0.1"), []string{"10.0.0.1"}, []string{"192.0.2.1"}},
		"the sandbox has none yet":    {[]string{"192.0.2.1"}, ready(), nil, []string{"192.0.2.1"}},
		"host network":                {[]string{"192.0.2.1", "2001:db8::1"}, func(i *Input) { i.Pod.Spec.HostNetwork = true }, []string{"192.0.2.1", "2001:db8::1"}, []string{"192.0.2.1", "2001:db8::1"}},
		"rejected, with host network": {[]string{"192.0.2.1"}, func(i *Input) { i.Pod.Spec.HostNetwork, i.Failure, i.Runtime = true, &Failure{}, nil }, nil, []string{"192.0.2.1"}},
		"evicted, with host network":  {[]string{"192.0.2.1"}, func(i *Input) { i.Pod.Spec.HostNetwork, i.Failure = true, &Failure{} }, []string{"192.0.2.1"}, []string{"192.0.2.1"}},
		"kept when the sandbox stopped": {[]string{"192.0.2.1"}, func(i *Input) {
			i.Runtime.Sandboxes[0].Ready = false
			i.Previous = &v1.PodStatus{PodIPs: []v1.PodIP{{IP: "10.0.0.9"}}}
		}, []string{"10.0.0.9"}, []string{"192.0.2.1"}},
		"not kept for a new sandbox": {[]string{"192.0.2.1"}, func(i *Input) {
			i.Previous = &v1.PodStatus{PodIPs: []v1.PodIP{{IP: "10.0.0.9"}}}
			i.Runtime.Sandboxes[0].IPs = []string{"10.0.0.1"}
		}, []string{"10.0.0.1"}, []string{"192.0.2.1"}},
	} {
		input := in(podOf(always, "a"), has(running("a")))
		input.HostIPs = c.hosts
		c.change(&input)
		got := Generate(input)
		var pod, host []string
		for _, ip := range got.PodIPs {
			pod = append(pod, ip.IP)
		}
		for _, ip := range got.HostIPs {
			host = append(host, ip.IP)
		}
		if diff := cmp.Diff(c.pod, pod); diff != "" {
			t.Errorf("%s: podIPs (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.host, host); diff != "" {
			t.Errorf("%s: hostIPs (-want +got):\n%s", name, diff)
		}
		if first := append(pod, "")[0]; got.PodIP != first {
			t.Errorf("%s: podIP %q, want the first of podIPs, %q", name, got.PodIP, first)
		}
		if first := append(host, "")[0]; got.HostIP != first {
			t.Errorf("%s: hostIP %q, want the first of hostIPs, %q", name, got.HostIP, first)
		}
	}
}
