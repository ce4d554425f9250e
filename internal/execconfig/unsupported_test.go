package execconfig

import (
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

// TestEveryFieldIsDecided: each field of a KubeletConfiguration for podexecd sets Settings, or is in the table that
// says whether it is safe to ignore. TestEveryFieldHasAnOwner of package kubeletconfig finds fields of a new version of
// the type.
func TestEveryFieldIsDecided(t *testing.T) {
	of := map[string]int{}
	for _, f := range unsupported {
		of[f.name]++
		if (f.unsafe == "") != (f.differs == nil) {
			t.Errorf("%s has only one of a reason and a condition", f.name)
		}
	}
	all := kubeletconfig.AllOfPodexecd()
	for _, name := range all {
		if isSupported(name) {
			of[name]++
		}
		if of[name] != 1 {
			t.Errorf("%s is in %d lists; want 1: supported, or in the table of unsupported fields", name, of[name])
		}
	}
	for name := range of {
		if !slices.Contains(all, name) {
			t.Errorf("%s isn't a field for podexecd", name)
		}
	}
}

// TestUnsafeFieldsAreRefused: where to ignore a field makes the node less safe, podexecd doesn't start.
func TestUnsafeFieldsAreRefused(t *testing.T) {
	const end = "; remove it, or run the kubelet on this node"
	testRefused(t, []refused{
		{text: "cpuManagerPolicy: static\n", want: "/etc/kubelet.yaml:3: cpuManagerPolicy: this version of podexecd does not support it: no container gets exclusive CPUs, " +
			"so other pods would run on those that it counts on" + end},
		{text: "memoryManagerPolicy: Static\n", want: "/etc/kubelet.yaml:3: memoryManagerPolicy: this version"},
		{text: "topologyManagerPolicy: restricted\n", want: "/etc/kubelet.yaml:3: topologyManagerPolicy: this version"},
		{text: "maxPods: 3\ntopologyManagerPolicy: single-numa-node\n", want: "/etc/kubelet.yaml:4: topologyManagerPolicy: this version"},
		{text: "featureGates: {QOSReserved: true}\nqosReserved: {memory: 50%}\n", want: "/etc/kubelet.yaml:4: qosReserved: this version"},
		{text: "featureGates: {AllAlpha: true}\nqosReserved: {memory: 50%}\n", want: "qosReserved"},
		{text: "defaultPodSysctls: {net.ipv4.ip_forward: '0'}\n", want: "/etc/kubelet.yaml:3: defaultPodSysctls: this version"},
	})
	tested := []string{"cpuManagerPolicy", "memoryManagerPolicy", "topologyManagerPolicy", "qosReserved", "defaultPodSysctls"}
	for _, f := range unsupported {
		if f.unsafe != "" && !slices.Contains(tested, f.name) {
			t.Errorf("%s has no row here", f.name)
		}
	}
}

// TestDefaultsAreNeverRefused: a file that states the kubelet's defaults changes nothing.
func TestDefaultsAreNeverRefused(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"the kubelet's defaults": {
			text: "cpuManagerPolicy: none\nmemoryManagerPolicy: None\ntopologyManagerPolicy: none\ntopologyManagerScope: container\nqosReserved: {}\n" +
				"defaultPodSysctls: {}\ncpuManagerReconcilePeriod: 10s\nhairpinMode: promiscuous-bridge\n",
			want: func(s *Settings) {
				s.Unsupported = []string{
					"cpuManagerPolicy", "cpuManagerReconcilePeriod", "defaultPodSysctls", "memoryManagerPolicy", "topologyManagerPolicy", "topologyManagerScope", "hairpinMode", "qosReserved",
				}
			},
		},
		"a preference": {
			text: "topologyManagerPolicy: best-effort\n",
			want: func(s *Settings) { s.Unsupported = []string{"topologyManagerPolicy"} },
		},
		"a gate that is off": {
			text: "qosReserved: {memory: 50%}\n",
			want: func(s *Settings) { s.Unsupported = []string{"qosReserved"} },
		},
	})
}

// TestUndecidedFieldIsRefused: a field in no list may be one that protects the node.
func TestUndecidedFieldIsRefused(t *testing.T) {
	before := unsupported
	defer func() { unsupported = before }()
	unsupported = nil
	testRefused(t, []refused{{text: "hairpinMode: none\n", want: "/etc/kubelet.yaml:3: hairpinMode: this version of podexecd does not support it: its effect on pods is unknown"}})
}
