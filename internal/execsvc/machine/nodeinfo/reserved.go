package nodeinfo

import (
	"fmt"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"
)

// reserveCPUs returns the settings with the number of ReservedCPUs in place of the reserved cpu, if there are any. They
// must be online.
func (m machine) reserveCPUs(s Settings) (Settings, error) {
	if s.ReservedCPUs == "" {
		return s, nil
	}
	cpus, err := cpuset.Parse(s.ReservedCPUs)
	if err != nil {
		return s, fmt.Errorf("reserved-cpus: %w", err)
	}
	online, err := m.online()
	if err != nil {
		return s, err
	}
	if !cpus.IsSubsetOf(online) {
		return s, fmt.Errorf("reserved-cpus: %s is not a subset of online-cpus: %s", s.ReservedCPUs, online)
	}
	s.KubeReserved, s.SystemReserved = maps.Clone(s.KubeReserved), maps.Clone(s.SystemReserved)
	delete(s.KubeReserved, string(v1.ResourceCPU))
	if s.SystemReserved == nil {
		s.SystemReserved = map[string]string{}
	}
	s.SystemReserved[string(v1.ResourceCPU)] = strconv.Itoa(cpus.Size())
	return s, nil
}
