package stats

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
)

// askAgain is when a runtime without stats of sandboxes is asked for them again: it may have been replaced.
const askAgain = 10 * time.Minute

// moment is a time that several goroutines use.
type moment struct {
	mu sync.Mutex
	at time.Time
}

func (m *moment) get() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *moment) set(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
}

// askRuntime adds the runtime's stats that the cgroups don't have: stats of sandboxes if it supports them, else of
// containers.
func (s *Stats) askRuntime(ctx context.Context, r *reading) error {
	if len(r.pods) == 0 {
		return nil
	}
	mounts := map[string]fileSystem{}
	if s.cfg.Clock.Now().After(s.noSandboxStats.get()) {
		all, err := s.cfg.Runtime.ListPodSandboxStats(ctx, nil)
		if err == nil {
			for _, stats := range all {
				s.addSandbox(r, stats, mounts)
			}
			return nil
		}
		// If a sandbox has just been removed, the stats of containers are still available.
		if status.Code(err) == codes.Unimplemented {
			s.noSandboxStats.set(s.cfg.Clock.Now().Add(askAgain))
		}
	}
	all, err := s.cfg.Runtime.ListContainerStats(ctx, nil)
	if err != nil {
		return fmt.Errorf("get the runtime's stats of containers: %w", err)
	}
	byID := map[string]*container{}
	for i := range r.pods {
		for k := range r.pods[i].containers {
			byID[r.pods[i].containers[k].id] = &r.pods[i].containers[k]
		}
	}
	for _, stats := range all {
		if c := byID[stats.GetAttributes().GetId()]; c != nil {
			s.addContainer(c, stats, mounts)
		}
	}
	return nil
}

// addSandbox adds the stats of a sandbox to its pod.
func (s *Stats) addSandbox(r *reading, stats *runtimeapi.PodSandboxStats, mounts map[string]fileSystem) {
	i := slices.IndexFunc(r.pods, func(p pod) bool { return p.sandbox.id == stats.GetAttributes().GetId() })
	if i < 0 {
		return
	}
	p, linux := &r.pods[i], stats.GetLinux()
	for _, of := range linux.GetContainers() {
		k := slices.IndexFunc(p.containers, func(c container) bool { return c.id == of.GetAttributes().GetId() })
		if k >= 0 {
			s.addContainer(&p.containers[k], of, mounts)
		}
	}
	if p.Usage == nil && (linux.GetCpu() != nil || linux.GetMemory() != nil) {
		p.used = s.fromRuntime("pod/"+string(p.uid), r.at, linux.GetCpu(), linux.GetMemory(), nil, linux.GetIo())
		if count := linux.GetProcess().GetProcessCount(); count != nil {
			p.Processes = new(count.GetValue())
		}
	}
	if network := linux.GetNetwork(); p.network == nil && network != nil && !p.hostNetwork {
		p.network = interfaces(network)
	}
}

// addContainer adds the runtime's stats to the container.
func (s *Stats) addContainer(c *container, stats *runtimeapi.ContainerStats, mounts map[string]fileSystem) {
	if c.Usage == nil && (stats.GetCpu() != nil || stats.GetMemory() != nil) {
		c.used = s.fromRuntime(c.id, s.cfg.Clock.Now(), stats.GetCpu(), stats.GetMemory(), stats.GetSwap(), stats.GetIo())
	}
	if layer := stats.GetWritableLayer(); layer != nil {
		c.layer = s.volumeOf(layer, mounts)
	}
}

// fromRuntime converts the runtime's stats, with the time of their measurement.
func (s *Stats) fromRuntime(
	key string, now time.Time, cpu *runtimeapi.CpuUsage, memory *runtimeapi.MemoryUsage, swap *runtimeapi.SwapUsage, io *runtimeapi.IoUsage,
) used {
	u := &kernel.Usage{At: now, IO: pressure(io.GetPsi())}
	if ns := max(cpu.GetTimestamp(), memory.GetTimestamp()); ns > 0 {
		u.At = time.Unix(0, ns)
	}
	u.CPU = kernel.CPU{Total: value(cpu.GetUsageCoreNanoSeconds()), Pressure: pressure(cpu.GetPsi())}
	u.Memory = kernel.Memory{
		Usage: value(memory.GetUsageBytes()), WorkingSet: value(memory.GetWorkingSetBytes()), RSS: value(memory.GetRssBytes()),
		Faults: value(memory.GetPageFaults()), MajorFaults: value(memory.GetMajorPageFaults()), Swap: value(swap.GetSwapUsageBytes()),
		Pressure: pressure(memory.GetPsi()),
	}
	// Some runtimes return 0 for no limit.
	if free := memory.GetAvailableBytes().GetValue(); free > 0 {
		u.Memory.Limit = new(free + memory.GetWorkingSetBytes().GetValue())
	}
	if free := swap.GetSwapAvailableBytes().GetValue(); free > 0 {
		u.Memory.SwapLimit = new(free + swap.GetSwapUsageBytes().GetValue())
	}
	mean := s.rates.of(key, u.At, u.CPU.Total)
	if own := cpu.GetUsageNanoCores(); own != nil {
		mean = &rate{value: own.GetValue()}
	}
	return used{u, mean}
}

func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return new(v.GetValue())
}

func pressure(p *runtimeapi.PsiStats) *kernel.Pressure {
	if p == nil {
		return nil
	}
	stall := func(d *runtimeapi.PsiData) kernel.Stall {
		return kernel.Stall{Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300(), Total: d.GetTotal()}
	}
	return &kernel.Pressure{Some: stall(p.GetSome()), Full: stall(p.GetFull())}
}

// interfaces returns the pod's interfaces, each once.
func interfaces(n *runtimeapi.NetworkUsage) []kernel.Interface {
	var out []kernel.Interface
	for _, i := range append([]*runtimeapi.NetworkInterfaceUsage{n.GetDefaultInterface()}, n.GetInterfaces()...) {
		if i == nil || slices.ContainsFunc(out, func(has kernel.Interface) bool { return has.Name == i.GetName() }) {
			continue
		}
		out = append(out, kernel.Interface{
			Name:     i.GetName(),
			Receive:  kernel.Traffic{Bytes: i.GetRxBytes().GetValue(), Errors: i.GetRxErrors().GetValue()},
			Transmit: kernel.Traffic{Bytes: i.GetTxBytes().GetValue(), Errors: i.GetTxErrors().GetValue()},
		})
	}
	return out
}

// volumeOf returns the runtime's use of a file system. mounts caches file systems.
func (s *Stats) volumeOf(u *runtimeapi.FilesystemUsage, mounts map[string]fileSystem) *volume {
	v := &volume{at: s.cfg.Clock.Now(), bytesUsed: value(u.GetUsedBytes()), inodes: value(u.GetInodesUsed())}
	if u.GetTimestamp() > 0 {
		v.at = time.Unix(0, u.GetTimestamp())
	}
	mountpoint := u.GetFsId().GetMountpoint()
	if mountpoint == "" {
		return v
	}
	on, known := mounts[mountpoint]
	if !known {
		// For a directory that isn't visible here the file system is unknown.
		on, _ = s.statfs(mountpoint)
		mounts[mountpoint] = on
	}
	v.fileSystem = on
	return v
}

func deviceOf(dev uint64) string { return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)) }
