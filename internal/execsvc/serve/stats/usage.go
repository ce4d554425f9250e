package stats

import (
	"context"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// maxContainers is how many containers Usage returns.
const maxContainers = 10_000

// Usage returns the use of CPU, memory and network by the node and its running pods, in order. If brief is set, that is
// without the network. What can't be read is left out; it returns an error if that is the node or all pods.
func (s *Stats) Usage(ctx context.Context, brief bool) (*podexecv1.NodeStats, []*podexecv1.PodStats, error) {
	r, err := s.usage(ctx, brief)
	if r == nil || r.machine == nil || r.unlisted {
		return nil, nil, err
	}
	node := &podexecv1.NodeStats{
		Name: s.cfg.Node, CapacityMillicores: s.cfg.Capacity.Cpu().MilliValue(), AllocatableMillicores: s.cfg.Allocatable.Cpu().MilliValue(),
		CapacityMemoryBytes: s.cfg.Capacity.Memory().Value(), AllocatableMemoryBytes: s.cfg.Allocatable.Memory().Value(),
	}
	u := used{&r.machine.Usage, r.machine.rate}
	node.Cpu, node.Memory, node.Network = u.cpuStats(), u.memoryStats(), networkStats(r.machine.At, r.machine.Network)
	pods, containers := []*podexecv1.PodStats{}, 0
	for i := range r.pods {
		p := &r.pods[i]
		of := &podexecv1.PodStats{
			Ref: &podconfigv1.PodRef{Uid: string(p.uid), Namespace: p.namespace, Name: p.name},
			Cpu: p.cpuStats(), Memory: p.memoryStats(), Network: networkStats(r.at, p.network),
		}
		for _, c := range p.containers {
			if c.Usage != nil && containers < maxContainers {
				containers++
				of.Containers = append(of.Containers, &podexecv1.ContainerStats{Name: c.name, Cpu: c.cpuStats(), Memory: c.memoryStats()})
			}
		}
		pods = append(pods, of)
	}
	return node, pods, nil
}

func (u used) cpuStats() *podexecv1.CPUStats {
	if u.Usage == nil || u.CPU.Total == nil {
		return nil
	}
	out := &podexecv1.CPUStats{Time: timestamppb.New(u.At), UsageCoreNanoseconds: *u.CPU.Total}
	if u.rate != nil {
		const nanosPerMilli = 1_000_000
		// Rounded up, as in the API server: a container that runs uses something.
		millis := u.rate.value / nanosPerMilli
		if u.rate.value%nanosPerMilli > 0 {
			millis++
		}
		out.UsageMillicores, out.IntervalNanoseconds = new(int64(min(millis, math.MaxInt64))), int64(u.rate.over) //nolint:gosec // Bounded.
	}
	return out
}

func (u used) memoryStats() *podexecv1.MemoryStats {
	if u.Usage == nil || u.Memory.WorkingSet == nil {
		return nil
	}
	return &podexecv1.MemoryStats{Time: timestamppb.New(u.At), WorkingSetBytes: *u.Memory.WorkingSet, UsageBytes: u.Memory.Usage}
}

// networkStats returns nil for objects without a network of their own, and in a brief reading.
func networkStats(at time.Time, all []kernel.Interface) *podexecv1.NetworkStats {
	if len(all) == 0 {
		return nil
	}
	out := &podexecv1.NetworkStats{Time: timestamppb.New(at)}
	for _, i := range all {
		out.Interfaces = append(out.Interfaces, &podexecv1.InterfaceStats{
			// A process in the pod names its interfaces.
			Name: strings.ToValidUTF8(i.Name, "\uFFFD"), ReceivedBytes: i.Receive.Bytes, SentBytes: i.Transmit.Bytes,
		})
	}
	return out
}
