package nodediff

// ReservedCases need the controller cpuset: the kubelet doesn't set limits of cgroups without it. They want two processors.
func ReservedCases() []*Case {
	slices := func(m *Machine) error {
		for _, name := range []string{"sysres.slice", "kuberes.slice"} {
			if err := m.MakeSlice(name); err != nil {
				return err
			}
		}
		return nil
	}
	reserved := func(enforce string) string {
		return `
enforceNodeAllocatable: ` + enforce + `
kubeReserved: {cpu: 100m, memory: 128Mi, ephemeral-storage: 256Mi, pid: "500"}
systemReserved: {cpu: 50m, memory: 64Mi, ephemeral-storage: 128Mi, pid: "200"}
systemReservedCgroup: /sysres.slice
kubeReservedCgroup: /kuberes.slice
`
	}
	of := []string{"sysres.slice", "kuberes.slice"}
	return []*Case{
		{Name: "enforced-defaults", Wants: append(atStart, "event Node/node NodeAllocatableEnforced")},
		{Name: "enforced-on-both", Config: reserved("[pods, system-reserved, kube-reserved]"), Prepare: slices, Cgroups: of, Wants: []string{
			"event Node/node NodeAllocatableEnforced", "cgroups sysres.slice/memory.max=67108864", "cgroups kuberes.slice/pids.max=500"}},
		{Name: "enforced-compressible", Config: reserved("[pods, system-reserved-compressible, kube-reserved-compressible]"), Prepare: slices, Cgroups: of,
			Wants: []string{"event Node/node NodeAllocatableEnforced", "cgroups sysres.slice/memory.max=max", "cgroups kuberes.slice/cpu.weight=4"}},
		{Name: "cgroups-not-enforced", Config: reserved("[pods]"), Prepare: slices, Cgroups: of, Wants: []string{"cgroups sysres.slice/memory.max=max"}},
		{Name: "memory-protected", Config: reserved("[pods, system-reserved, kube-reserved]") + "memoryThrottlingFactor: 0.9\n", Gates: "MemoryQoS=true",
			// Since Kubernetes 1.36 this field decides what the gate protects.
			Own:     "memoryReservationPolicy: TieredReservation",
			Prepare: slices, Cgroups: of, Wants: []string{"cgroups sysres.slice/memory.min=67108864"}},
		{Name: "reserved-cpus", Config: `reservedSystemCPUs: "0"`, Wants: []string{"node allocatable.cpu=1"}},
		{Name: "reserved-cpus-over-reserved", Config: `{reservedSystemCPUs: "0", kubeReserved: {cpu: 300m}, systemReserved: {cpu: 200m}}`,
			Wants: []string{"node allocatable.cpu=1"}},
	}
}
