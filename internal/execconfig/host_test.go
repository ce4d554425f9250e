package execconfig

import "testing"

func TestHost(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"the host, by the file": {
			text: "enforceNodeAllocatable: [pods, system-reserved, kube-reserved-compressible]\nsystemReserved: {memory: 1Gi}\nkubeReserved: {cpu: 100m}\n" +
				"systemReservedCgroup: /system.slice\nkubeReservedCgroup: kube\nkubeletCgroups: /kube/kubelet\nsystemCgroups: /system\ncgroupRoot: /\npodsPerCore: 10\n" +
				"protectKernelDefaults: true\nfailSwapOn: false\noomScoreAdj: 0\nmaxOpenFiles: 4096\n",
			want: func(s *Settings) {
				s.EnforceNodeAllocatable = []string{"pods", "system-reserved", "kube-reserved-compressible"}
				s.SystemReserved, s.KubeReserved = map[string]string{"memory": "1Gi"}, map[string]string{"cpu": "100m"}
				s.Host = Host{
					KubeReservedCgroup: "kube", SystemReservedCgroup: "/system.slice", KubeletCgroups: "/kube/kubelet", SystemCgroups: "/system", PodsPerCore: 10,
					ProtectKernelDefaults: true, TuneKernel: true, MaxOpenFiles: 4096,
				}
				s.Warnings = []string{"kubeletCgroups isn't within kubeReservedCgroup, so that kubeReserved doesn't limit podexecd"}
			},
		},
		"the host, by flags": {
			text: "podsPerCore: 7\noomScoreAdj: 5\nmaxOpenFiles: 3\nfailSwapOn: true\nprotectKernelDefaults: true\nreservedSystemCPUs: '1'\n",
			args: []string{
				"--pods-per-core=0", "--oom-score-adj=-1000", "--max-open-files=1048576", "--fail-swap-on=false", "--protect-kernel-defaults=false",
				"--tune-kernel=false", "--reserved-cpus=0,2-3",
			},
			want: func(s *Settings) {
				s.Host = Host{OOMScoreAdj: -1000, MaxOpenFiles: 1048576, ReservedSystemCPUs: "0,2-3"}
			},
		},
		"enforced by flags": {
			args: []string{
				"--enforce-node-allocatable=kube-reserved,system-reserved-compressible", "--kube-reserved=memory=1Gi", "--system-reserved=cpu=1",
				"--kube-reserved-cgroup=/kube", "--system-reserved-cgroup=/system", "--kubelet-cgroups=/kube/kubelet", "--system-cgroups=/system",
				"--cgroup-root=/",
			},
			want: func(s *Settings) {
				s.EnforceNodeAllocatable = []string{"kube-reserved", "system-reserved-compressible"}
				s.SystemReserved, s.KubeReserved = map[string]string{"cpu": "1"}, map[string]string{"memory": "1Gi"}
				s.KubeReservedCgroup, s.SystemReservedCgroup, s.KubeletCgroups, s.SystemCgroups = "/kube", "/system", "/kube/kubelet", "/system"
			},
		},
	})
}

func TestHostRefused(t *testing.T) {
	const enforce = "enforceNodeAllocatable: "
	testRefused(t, []refused{
		{text: enforce + "[all]\n", want: `/etc/kubelet.yaml:3: enforceNodeAllocatable: "all" is unknown`},
		{text: enforce + "[pods, pods]\n", want: `"pods" is in it twice`},
		{text: enforce + "[none, pods]\n", want: `"none" can't be used with other values`},
		{text: enforce + "[system-reserved]\nsystemReserved: {cpu: '1'}\n", want: `"system-reserved" needs systemReservedCgroup`},
		{text: enforce + "[kube-reserved-compressible]\nkubeReserved: {cpu: '1'}\n", want: `"kube-reserved-compressible" needs kubeReservedCgroup`},
		{text: enforce + "[kube-reserved]\nkubeReservedCgroup: /kube\n", want: `"kube-reserved" needs kubeReserved (--kube-reserved)`},
		{
			text: enforce + "[system-reserved-compressible]\nsystemReservedCgroup: /s\nsystemReserved: {cpu: '1'}\ncgroupsPerQOS: false\n",
			want: `"system-reserved-compressible" needs cgroupsPerQOS`,
		},
		{
			text: enforce + "[system-reserved, system-reserved-compressible]\nsystemReservedCgroup: /s\nsystemReserved: {cpu: '1'}\n",
			want: `"system-reserved" and "system-reserved-compressible" can't be used together`,
		},
		{args: []string{"--system-reserved-cgroup=/"}, want: `--system-reserved-cgroup: it is "/"; want a cgroup beneath the root`},
		{text: "kubeReservedCgroup: /a/../..\n", want: "/etc/kubelet.yaml:3: kubeReservedCgroup"},
		{text: enforce + "[pods]\ncgroupsPerQOS: false\n", want: `/etc/kubelet.yaml:3: enforceNodeAllocatable: "pods" needs cgroupsPerQOS (--cgroups-per-qos)`},
		{args: []string{"--cgroups-per-qos=false", "--enforce-node-allocatable=pods"}, want: `--enforce-node-allocatable: "pods" needs cgroupsPerQOS`},
		{text: "systemCgroups: /\n", want: "systemCgroups"},
		{text: "systemCgroups: /system\n", want: "/etc/kubelet.yaml:3: systemCgroups: it needs cgroupRoot (--cgroup-root)"},
		{args: []string{"--system-cgroups=/system"}, want: "--system-cgroups: it needs cgroupRoot (--cgroup-root)"},
		{text: "kubeletCgroups: ../x\n", want: "kubeletCgroups"},
		{args: []string{"--reserved-cpus=0-"}, want: `--reserved-cpus: it is "0-"; want a list of CPUs`},
		{text: "reservedSystemCPUs: '0'\nkubeReservedCgroup: /kube\n", want: "reservedSystemCPUs: it can't be used with systemReservedCgroup"},
		{text: "reservedSystemCPUs: '0'\nsystemReservedCgroup: /system\n", want: "reservedSystemCPUs: it can't be used with systemReservedCgroup"},
		{args: []string{"--reserved-cpus=0-999999999999"}, want: `--reserved-cpus: it is "0-999999999999"; want a list of CPUs`},
		{text: "reservedSystemCPUs: '1,0-99999999'\n", want: "reservedSystemCPUs: it is"},
		{text: "reservedSystemCPUs: '-1'\n", want: "reservedSystemCPUs: it is"},
		{text: "reservedSystemCPUs: ','\n", want: "reservedSystemCPUs: it is"},
		{text: "podsPerCore: -1\n", want: "podsPerCore: it is -1; want 0 to 2147483647"},
		// The number of pods would be 0 on a machine with 4 CPUs, and that of the configuration too.
		{args: []string{"--pods-per-core=4611686018427387904"}, want: "--pods-per-core: it is 4611686018427387904; want 0 to 2147483647"},
		{args: []string{"--max-pods=4294967296"}, want: "--max-pods: it is 4294967296; want 0 to 2147483647"},
		{text: "oomScoreAdj: 1001\n", want: "oomScoreAdj: it is 1001; want -1000 to 1000"},
		{args: []string{"--oom-score-adj=-1001"}, want: "--oom-score-adj: it is -1001"},
		{args: []string{"--max-open-files=0"}, want: "--max-open-files: it is 0"},
		{text: "maxOpenFiles: -5\n", want: "maxOpenFiles: it is -5"},
	})
}
