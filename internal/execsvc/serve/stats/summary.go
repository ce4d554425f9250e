package stats

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
)

// defaultInterface is the interface whose values are the pod's own, besides the list of all interfaces.
const defaultInterface = "eth0"

// summary converts a reading to the Summary API. Without disk it has only CPU and memory.
func summary(node string, r *reading, disk *diskReading) *statsapi.Summary {
	out := &statsapi.Summary{Node: statsapi.NodeStats{NodeName: node}, Pods: make([]statsapi.PodStats, 0, len(r.pods))}
	if m := r.machine; m != nil {
		out.Node.StartTime = metav1.NewTime(m.Boot)
		u := used{&m.Usage, m.rate}
		out.Node.CPU, out.Node.Memory, out.Node.Swap = u.cpu(), u.memory(), u.swap()
		if disk != nil {
			out.Node.IO, out.Node.Network = u.io(), network(m.At, m.Network)
			out.Node.Rlimit = rlimit(m)
		}
	}
	for _, g := range r.system {
		c := statsapi.ContainerStats{Name: g.name, CPU: g.cpu(), Memory: g.memory(), Swap: g.swap()}
		if r.machine != nil {
			c.StartTime = metav1.NewTime(r.machine.Boot)
		}
		out.Node.SystemContainers = append(out.Node.SystemContainers, c)
	}
	if disk != nil {
		out.Node.Fs = r.node.stats()
		out.Node.Runtime = &statsapi.RuntimeStats{ImageFs: r.images.stats(), ContainerFs: r.layers.stats()}
	}
	for i := range r.pods {
		out.Pods = append(out.Pods, podStats(r, &r.pods[i], disk))
	}
	return out
}

func rlimit(m *machine) *statsapi.RlimitStats {
	if m.MaxTasks == nil || m.Tasks == nil {
		return nil
	}
	//nolint:gosec // Numbers of tasks.
	return &statsapi.RlimitStats{Time: metav1.NewTime(m.At), MaxPID: new(int64(*m.MaxTasks)), NumOfRunningProcesses: new(int64(*m.Tasks))}
}

func podStats(r *reading, p *pod, disk *diskReading) statsapi.PodStats {
	out := statsapi.PodStats{
		PodRef:    statsapi.PodReference{Name: p.name, Namespace: p.namespace, UID: string(p.uid)},
		StartTime: metav1.NewTime(p.created), Containers: []statsapi.ContainerStats{},
		CPU: p.cpu(), Memory: p.memory(), Swap: p.swap(),
	}
	var on podDisk
	if disk != nil {
		on = disk.pods[p.uid]
		out.Network, out.IO = network(r.at, p.network), p.io()
		if p.Usage != nil && p.Processes != nil {
			out.ProcessStats = &statsapi.ProcessStats{ProcessCount: p.Processes}
		}
	}
	for _, c := range p.containers {
		if c.Usage == nil && c.layer == nil {
			// The container has ended meanwhile.
			continue
		}
		of := statsapi.ContainerStats{Name: c.name, StartTime: metav1.NewTime(c.created), CPU: c.cpu(), Memory: c.memory(), Swap: c.swap()}
		if disk != nil {
			of.IO, of.Rootfs, of.Logs = c.io(), c.layer.stats(), on.logs[c.name].stats()
		}
		out.Containers = append(out.Containers, of)
	}
	if disk != nil {
		for _, v := range on.volumes {
			out.VolumeStats = append(out.VolumeStats, statsapi.VolumeStats{FsStats: *v.stats(), Name: v.name})
		}
		out.VolumeStats = append(out.VolumeStats, on.persistent...)
		out.EphemeralStorage = ephemeral(r, p, on)
	}
	return out
}

// ephemeral returns the pod's use of the node's disk: writable layers, logs and volumes.
func ephemeral(r *reading, p *pod, on podDisk) *statsapi.FsStats {
	if r.node == nil {
		return nil
	}
	sum := &volume{fileSystem: r.node.fileSystem, at: r.node.at}
	add := func(v *volume) {
		if v != nil {
			sum.bytesUsed, sum.inodes = plus(sum.bytesUsed, v.bytesUsed), plus(sum.inodes, v.inodes)
		}
	}
	for _, c := range p.containers {
		add(c.layer)
	}
	for _, v := range on.logs {
		add(v)
	}
	for _, v := range on.rest {
		add(v)
	}
	for _, v := range on.volumes {
		if v.device == r.node.device {
			add(v.volume)
		}
	}
	return sum.stats()
}

func (u used) cpu() *statsapi.CPUStats {
	if u.Usage == nil || u.CPU.Total == nil {
		return nil
	}
	return &statsapi.CPUStats{
		Time: metav1.NewTime(u.At), UsageNanoCores: u.rate.nanoCores(), UsageCoreNanoSeconds: u.CPU.Total, PSI: psi(u.CPU.Pressure),
	}
}

func (u used) memory() *statsapi.MemoryStats {
	if u.Usage == nil || u.Memory.WorkingSet == nil {
		return nil
	}
	m := u.Memory
	out := &statsapi.MemoryStats{
		Time: metav1.NewTime(u.At), UsageBytes: m.Usage, WorkingSetBytes: m.WorkingSet, RSSBytes: m.RSS,
		PageFaults: m.Faults, MajorPageFaults: m.MajorFaults, PSI: psi(m.Pressure),
	}
	if m.Limit != nil && *m.Limit != kernel.Unlimited {
		out.AvailableBytes = new(less(*m.Limit, *m.WorkingSet))
	}
	return out
}

func (u used) swap() *statsapi.SwapStats {
	if u.Usage == nil || u.Memory.Swap == nil {
		return nil
	}
	out := &statsapi.SwapStats{Time: metav1.NewTime(u.At), SwapUsageBytes: u.Memory.Swap}
	if u.Memory.SwapLimit != nil && *u.Memory.SwapLimit != kernel.Unlimited {
		out.SwapAvailableBytes = new(less(*u.Memory.SwapLimit, *u.Memory.Swap))
	}
	return out
}

func (u used) io() *statsapi.IOStats {
	if u.Usage == nil || u.IO == nil {
		return nil
	}
	return &statsapi.IOStats{Time: metav1.NewTime(u.At), PSI: psi(u.IO)}
}

func psi(p *kernel.Pressure) *statsapi.PSIStats {
	if p == nil {
		return nil
	}
	of := func(s kernel.Stall) statsapi.PSIData {
		return statsapi.PSIData{Total: s.Total, Avg10: s.Avg10, Avg60: s.Avg60, Avg300: s.Avg300}
	}
	return &statsapi.PSIStats{Full: of(p.Full), Some: of(p.Some)}
}

// network returns nil for objects without a network of their own.
func network(at time.Time, all []kernel.Interface) *statsapi.NetworkStats {
	if len(all) == 0 {
		return nil
	}
	out := &statsapi.NetworkStats{Time: metav1.NewTime(at)}
	for _, i := range all {
		of := statsapi.InterfaceStats{
			Name: i.Name, RxBytes: new(i.Receive.Bytes), RxErrors: new(i.Receive.Errors), TxBytes: new(i.Transmit.Bytes), TxErrors: new(i.Transmit.Errors),
		}
		if i.Name == defaultInterface {
			out.InterfaceStats = of
		}
		out.Interfaces = append(out.Interfaces, of)
	}
	return out
}

// If a file system can't be read, its stats have only the used part.
func (v *volume) stats() *statsapi.FsStats {
	if v == nil {
		return nil
	}
	out := &statsapi.FsStats{Time: metav1.NewTime(v.at), UsedBytes: v.bytesUsed, InodesUsed: v.inodes}
	if v.bytes > 0 {
		out.AvailableBytes, out.CapacityBytes = new(v.available), new(v.bytes)
	}
	if v.files > 0 {
		// Some file systems have no number of files.
		out.Inodes, out.InodesFree = new(v.files), new(v.filesFree)
	}
	return out
}

// newest returns the newest pod of each name: series have no UID.
func newest(pods []pod) []*pod {
	var out []*pod
	last := types.NamespacedName{}
	for i := range pods {
		// The newest pod of a name comes first.
		if name := (types.NamespacedName{Namespace: pods[i].namespace, Name: pods[i].name}); name != last {
			out, last = append(out, &pods[i]), name
		}
	}
	return out
}
