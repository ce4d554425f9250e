package nodediff

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/devnode"
)

// Cases are all cases of a guest without the controller cpuset.
func Cases() []*Case {
	// The kubelet reports the kernel's OOMs of before its start too, so these come last.
	return slices.Concat(settings(), kernelCases(), podCases(), faultCases(), imageCases(), oomCases())
}

// atStart are the events of each node's start.
var atStart = []string{
	"event Node/node Starting", "event Node/node NodeHasSufficientMemory", "event Node/node NodeHasNoDiskPressure",
	"event Node/node NodeHasSufficientPID", "event Node/node NodeReady",
}

// settings are the cases of a node without pods.
func settings() []*Case {
	return []*Case{
		{Name: "defaults", Wants: append(atStart, "event Node/node FailedNodeAllocatableEnforcement",
			"process oom_score_adj=-999", "process nofile.soft=1000000")},
		{Name: "nothing-enforced", Config: "enforceNodeAllocatable: [none]", Wants: []string{"event Node/node FailedNodeAllocatableEnforcement"}},
		{Name: "no-cgroups", Config: "{enforceNodeAllocatable: [none], cgroupsPerQOS: false}", Wants: atStart},
		{Name: "reserved", Config: `
kubeReserved: {cpu: 100m, memory: 128Mi, ephemeral-storage: 256Mi, pid: "500"}
systemReserved: {cpu: 50m, memory: 64Mi, ephemeral-storage: 128Mi, pid: "200"}
evictionHard: {memory.available: 5%, nodefs.available: 7%, nodefs.inodesFree: 3%, imagefs.available: 9%}
`, Wants: []string{"node allocatable.cpu=850m"}},
		{Name: "reserved-more-than-capacity", Config: `kubeReserved: {memory: 64Gi}`, Refuses: true, Names: []string{"memory"}},
		{Name: "pods-per-core", Config: "{maxPods: 50, podsPerCore: 7}", Wants: []string{"node capacity.pods=7"}},
		{Name: "pods-per-core-above-max-pods", Config: "{maxPods: 5, podsPerCore: 7}", Wants: []string{"node capacity.pods=5"}},
		{Name: "reserved-cpus-all", Config: `reservedSystemCPUs: "0"`, Wants: []string{"node allocatable.cpu=0"}},
		{Name: "reserved-cpus-missing", Config: `reservedSystemCPUs: "7"`, Refuses: true, Names: []string{"7"}},
		{Name: "process", Config: "{maxOpenFiles: 5000, oomScoreAdj: -500}", Wants: []string{
			"process nofile.soft=5000", "process nofile.hard=5000", "process oom_score_adj=-500"}},
		{Name: "process-flags", Flags: []string{"--max-open-files=6000", "--oom-score-adj=-300"}, Wants: []string{
			"process nofile.soft=6000", "process oom_score_adj=-300"}},
		{Name: "cgroup-v1", Config: "failCgroupV1: true", Prepare: (*Machine).HideCgroups, Refuses: true, Names: []string{"cgroup v1"}},
		{Name: "no-cgroup-v1", Config: "failCgroupV1: true", Wants: atStart},
		{Name: "missing-system-reserved", Config: `
enforceNodeAllocatable: [pods, system-reserved]
systemReserved: {cpu: 100m, memory: 128Mi}
systemReservedCgroup: /absent.slice
`, Refuses: true, Names: []string{"absent"}},
		{Name: "missing-kube-reserved-compressible", Config: `
enforceNodeAllocatable: [pods, kube-reserved-compressible]
kubeReserved: {cpu: 100m}
kubeReservedCgroup: /absent.slice
`, Refuses: true, Names: []string{"absent"}},
	}
}

// kernelCases are those of the kernel's settings, and of swap.
func kernelCases() []*Case {
	wrong := func(m *Machine) error { return m.SetSysctl("vm.overcommit_memory", "2") }
	right := func(m *Machine) error {
		for name, value := range map[string]string{
			"vm.overcommit_memory": "1", "kernel.panic": "10", "kernel.panic_on_oops": "1", "kernel.keys.root_maxkeys": "1000000",
			"kernel.keys.root_maxbytes": "25000000",
		} {
			if err := m.SetSysctl(name, value); err != nil {
				return err
			}
		}
		return nil
	}
	return []*Case{
		{Name: "kernel-defaults-protected", Config: "protectKernelDefaults: true", Prepare: wrong, Refuses: true,
			Names: []string{"overcommit_memory", "panic_on_oops", "root_maxkeys", "root_maxbytes", "expected value: 10, actual value: 0"}},
		{Name: "kernel-defaults-right", Config: "protectKernelDefaults: true", Prepare: right, Wants: atStart},
		{Name: "kernel-defaults-written", Prepare: wrong, Wants: []string{"sysctls vm.overcommit_memory=1"}},
		{Name: "swap", Prepare: (*Machine).SwapOn, Refuses: true, Names: []string{"swap"}},
		{Name: "swap-allowed", Config: "failSwapOn: false", Prepare: (*Machine).SwapOn, Wants: append(atStart, "node info.swap.capacity=5.36866816e+08")},
	}
}

// pod returns a pod of the sample image, which runs with the arguments.
func pod(name string, args ...string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever,
			Containers:    []v1.Container{{Name: "app", Image: devnode.SampleImage, ImagePullPolicy: v1.PullIfNotPresent, Args: args}},
		},
	}
}
