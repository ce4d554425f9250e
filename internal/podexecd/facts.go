package podexecd

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/opencontainers/cgroups/systemd"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/declared"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
)

// seccompDir is the directory of Localhost seccomp profiles in --root-dir.
const seccompDir = "seccomp"

// facts are the properties of the node that don't change while podexecd runs. The runtime's features may change, and
// aren't part of them.
type facts struct {
	info nodeinfo.Info
	// cgroupDriver is the container runtime's driver.
	cgroupDriver string
}

// readFacts reads the machine and queries the runtime.
func readFacts(ctx context.Context, opts *Options, c *connection, log *slog.Logger) (*facts, error) {
	info, err := readMachine(opts)
	if err != nil {
		return nil, err
	}
	f := &facts{info: info}
	if f.cgroupDriver, err = c.cgroupDriver(ctx, opts.settings.CgroupDriver, log); err != nil {
		return nil, err
	}
	if s := opts.settings; s.ReservedSystemCPUs != "" {
		log.Info("--reserved-cpus replaces the cpu of kubeReserved and systemReserved", "cpus", s.ReservedSystemCPUs)
	}
	log.Info("allocatable resources", "cpu", info.Allocatable.Cpu(), "memory", info.Allocatable.Memory(), "pods", info.Allocatable.Pods(),
		"cgroup_v2", info.CgroupV2, "cgroup_driver", f.cgroupDriver, "apparmor", info.AppArmor)
	f.warnOfPIDs(opts.settings, log)
	return f, nil
}

// warnOfPIDs logs that the reservation of processes has no effect, if pods are limited and it leaves them too few.
func (f *facts) warnOfPIDs(s *execconfig.Settings, log *slog.Logger) {
	if f.info.IgnoredPIDs.IsZero() || f.boundedCgroup(s) == "" {
		return
	}
	machine, limit := f.info.Unreserved["pid"], f.info.Bound["pid"]
	log.Warn("pid in kubeReserved and systemReserved leaves too few processes for pods, and is ignored",
		"reserved", &f.info.IgnoredPIDs, "machine", machine.Value(), "limit", limit.Value(), "cgroup", f.boundedCgroup(s))
}

// readMachine reads the machine's capacity, and the allocatable part of it.
func readMachine(opts *Options) (nodeinfo.Info, error) {
	s := opts.settings
	info, err := nodeinfo.Read(nodeinfo.Settings{
		Hostname: opts.node, Labels: s.Labels, RootDir: opts.kubeletDir, MaxPods: s.MaxPods,
		PodsPerCore: s.PodsPerCore, KubeReserved: s.KubeReserved, SystemReserved: s.SystemReserved, ReservedCPUs: s.ReservedSystemCPUs,
		EvictionHard: s.EvictionHard,
	})
	if err == nil && !s.LocalStorageCapacityIsolation {
		delete(info.Allocatable, v1.ResourceEphemeralStorage)
	}
	return info, err
}

// reread returns a function that reads the machine again, and returns the last values while it can't be read. One
// goroutine at a time may call it.
func (f *facts) reread(opts *Options) func() nodeinfo.Info {
	last := f.info
	return func() nodeinfo.Info {
		if info, err := readMachine(opts); err == nil {
			last = info
		}
		return last
	}
}

// admission returns the values that pods are admitted against, given what the runtime last reported.
func (f *facts) admission(opts *Options, reported nodestatus.Runtime, rules declared.Rules) admit.Node {
	return admit.Node{
		Name: opts.node, Labels: f.info.Labels, Allocatable: f.info.Allocatable, AppArmor: f.info.AppArmor,
		UnsafeSysctls: opts.settings.UnsafeSysctls, Runtime: abilities(reported), Declared: rules.Of(reported.Features),
	}
}

// forCRI returns the node's values for sandboxes and containers.
func (f *facts) forCRI(opts *Options) criconfig.Node {
	s := opts.settings
	return criconfig.Node{
		MemoryCapacity: f.info.Capacity.Memory().Value(), MemoryForPods: f.info.Bound.Memory().Value(),
		SwapCapacity: f.info.SwapCapacity(), SwapAccounting: f.info.SwapAccounting, CgroupV2: f.info.CgroupV2, LimitedSwap: s.LimitedSwap, MemoryQoS: s.ReserveMemory,
		NoCPUQuota: !s.CPUQuota, CPUQuotaPeriod: s.CPUQuotaPeriod, MemoryThrottlingFactor: s.MemoryThrottlingFactor, SeccompDefault: s.SeccompDefault,
		SeccompDir: filepath.Join(opts.RootDir, seccompDir), SingleProcessOOMKill: s.SingleProcessOOMKill, HugePageSizes: f.info.HugePageSizes(),
	}
}

// bounded reports whether pods are limited to the node's allocatable resources.
func bounded(s *execconfig.Settings) bool { return s.Enforces(execconfig.EnforcePods) }

// boundedCgroup returns the cgroup of all pods if they are limited to the allocatable resources.
func (f *facts) boundedCgroup(s *execconfig.Settings) string {
	if !bounded(s) {
		return ""
	}
	return podsCgroup(s, f.cgroupDriver)
}

// podsCgroup returns the cgroup of all pods, as package cgroup creates it; empty if they have none.
func podsCgroup(s *execconfig.Settings, driver string) string {
	if !s.CgroupsPerQOS {
		return ""
	}
	at := filepath.Join("/", s.CgroupRoot, "kubepods") //nolint:gocritic // An empty root is "/".
	if driver != cgroup.Systemd {
		return at
	}
	slice := strings.ReplaceAll(strings.ReplaceAll(at[1:], "-", "_"), "/", "-") + ".slice"
	if nested, err := systemd.ExpandSlice(slice); err == nil {
		return nested
	}
	return ""
}

// cgroups returns the manager of the pods' cgroups, which records events of their limits.
func (f *facts) cgroups(s *execconfig.Settings, event func(nodestatus.Event), r prometheus.Registerer, log *slog.Logger) (*cgroup.Manager, error) {
	room := f.info.Unreserved
	if bounded(s) {
		room = f.info.Bound
	}
	return cgroup.New(cgroup.Config{
		PerQoS: s.CgroupsPerQOS, Root: s.CgroupRoot, Driver: f.cgroupDriver, Allocatable: room, PodPidsLimit: s.PodPidsLimit,
		NoCPUQuota: !s.CPUQuota, CPUQuotaPeriod: s.CPUQuotaPeriod, ReserveMemory: s.ReserveMemory,
		Limited: podsLimited(podsCgroup(s, f.cgroupDriver), event), Metrics: r, Logger: log,
	})
}
