package podexecd

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups/systemd"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/cgroup"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/nodeinfo"
)

// seccompDir has the Localhost profiles of seccomp, in --root-dir.
const seccompDir = "seccomp"

// facts are what is known of the node and its runtime.
type facts struct {
	info nodeinfo.Info
	// runtime is what the container runtime can do, cgroupDriver the driver that it uses.
	runtime      admit.Runtime
	cgroupDriver string
}

// readFacts reads the machine and asks the runtime.
func readFacts(ctx context.Context, opts *Options, c *connection, log *slog.Logger) (*facts, error) {
	info, err := readMachine(opts)
	if err != nil {
		return nil, err
	}
	f := &facts{info: info, cgroupDriver: opts.settings.CgroupDriver}
	status, err := c.runtime.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	f.runtime = runtimeFeatures(status)
	// Runtimes before CRI 1.28 don't tell: then the configuration counts.
	if config, err := c.runtime.RuntimeConfig(ctx); err == nil && config.GetLinux() != nil {
		f.cgroupDriver = cgroup.Cgroupfs
		if config.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD {
			f.cgroupDriver = cgroup.Systemd
		}
	}
	log.Info("what pods can have here", "cpu", info.Allocatable.Cpu(), "memory", info.Allocatable.Memory(), "pods", info.Allocatable.Pods(),
		"cgroup_v2", info.CgroupV2, "cgroup_driver", f.cgroupDriver, "apparmor", info.AppArmor)
	return f, nil
}

// readMachine reads what this machine has, and what of it pods may have.
func readMachine(opts *Options) (nodeinfo.Info, error) {
	s := opts.settings
	info, err := nodeinfo.Read(nodeinfo.Settings{
		Hostname: opts.node, Labels: s.Labels, RootDir: opts.RootDir, MaxPods: s.MaxPods,
		KubeReserved: s.KubeReserved, SystemReserved: s.SystemReserved, EvictionHard: s.EvictionHard,
	})
	if err == nil && !s.LocalStorageCapacityIsolation {
		delete(info.Allocatable, v1.ResourceEphemeralStorage)
	}
	return info, err
}

// reread returns what the machine has now; what it had at start while that can't be read. It is for one caller at a time.
func (f *facts) reread(opts *Options) func() nodeinfo.Info {
	last := f.info
	return func() nodeinfo.Info {
		if info, err := readMachine(opts); err == nil {
			last = info
		}
		return last
	}
}

// runtimeFeatures is what the runtime says that it can do. Image volumes it doesn't tell of: those that can mount them tell of their handlers'
// read-only mounts, which came with the release before.
func runtimeFeatures(status *runtimeapi.StatusResponse) admit.Runtime {
	r := admit.Runtime{
		SupplementalGroupsPolicy:  status.GetFeatures().GetSupplementalGroupsPolicy(),
		UserNamespacesHostNetwork: status.GetFeatures().GetUserNamespacesHostNetwork(),
		Handlers:                  map[string]admit.Handler{},
	}
	for _, h := range status.GetRuntimeHandlers() {
		r.Handlers[h.GetName()] = admit.Handler{
			UserNamespaces: h.GetFeatures().GetUserNamespaces(), RecursiveReadOnlyMounts: h.GetFeatures().GetRecursiveReadOnlyMounts(),
		}
	}
	r.ImageVolumes = r.SupplementalGroupsPolicy
	return r
}

// admission is what pods are admitted against.
func (f *facts) admission(opts *Options) admit.Node {
	return admit.Node{
		Name: opts.node, Labels: f.info.Labels, Allocatable: f.info.Allocatable, AppArmor: f.info.AppArmor,
		UnsafeSysctls: opts.settings.UnsafeSysctls, Runtime: f.runtime,
	}
}

// forCRI is what sandboxes and containers take from the node.
func (f *facts) forCRI(opts *Options) criconfig.Node {
	s := opts.settings
	return criconfig.Node{
		MemoryCapacity: f.info.Capacity.Memory().Value(), MemoryAllocatable: f.info.Allocatable.Memory().Value(),
		SwapCapacity: f.info.SwapCapacity(), SwapAccounting: f.info.SwapAccounting, CgroupV2: f.info.CgroupV2, LimitedSwap: s.LimitedSwap, MemoryQoS: s.ReserveMemory,
		NoCPUQuota: !s.CPUQuota, CPUQuotaPeriod: s.CPUQuotaPeriod, MemoryThrottlingFactor: s.MemoryThrottlingFactor, SeccompDefault: s.SeccompDefault,
		SeccompDir: filepath.Join(opts.RootDir, seccompDir), SingleProcessOOMKill: s.SingleProcessOOMKill, HugePageSizes: f.info.HugePageSizes(),
	}
}

// bounded tells whether pods are held to what isn't reserved.
func bounded(s *execconfig.Settings) bool { return slices.Contains(s.EnforceNodeAllocatable, "pods") }

// boundedCgroup is the cgroup of all pods if they are held to what isn't reserved.
func (f *facts) boundedCgroup(s *execconfig.Settings) string {
	if !bounded(s) {
		return ""
	}
	return podsCgroup(s, f.cgroupDriver)
}

// podsCgroup is the cgroup of all pods, as package cgroup makes it; empty if they have none.
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

// cgroups makes the manager of the pods' cgroups.
func (f *facts) cgroups(s *execconfig.Settings, log *slog.Logger) (*cgroup.Manager, error) {
	room := f.info.Capacity
	if bounded(s) {
		room = f.info.Bound
	}
	return cgroup.New(cgroup.Config{
		PerQoS: s.CgroupsPerQOS, Root: s.CgroupRoot, Driver: f.cgroupDriver, Allocatable: room, PodPidsLimit: s.PodPidsLimit,
		NoCPUQuota: !s.CPUQuota, CPUQuotaPeriod: s.CPUQuotaPeriod, ReserveMemory: s.ReserveMemory, Logger: log,
	})
}
