package execconfig

import "testing"

// TestBounds: podexecd refuses what the kubelet refuses. make differential-node compares both.
func TestBounds(t *testing.T) {
	testRefused(t, []refused{
		{text: "crashLoopBackOff: {maxContainerRestartPeriod: 500ms}\n", want: "/etc/kubelet.yaml:3: crashLoopBackOff.maxContainerRestartPeriod: it is 500ms"},
		{text: "crashLoopBackOff: {maxContainerRestartPeriod: 301s}\n", want: "it is 5m1s; want 1s to 5m0s"},
		{text: "maxParallelImagePulls: 0\n", want: "/etc/kubelet.yaml:3: maxParallelImagePulls: it is 0"},
		{text: "podLogsDir: /var/log/../pods\n", want: `/etc/kubelet.yaml:3: podLogsDir: it is "/var/log/../pods"; want "/var/pods"`},
		{text: "hairpinMode: bridge\n", want: `hairpinMode: it is "bridge"; want none, hairpin-veth or promiscuous-bridge`},
	})
}
