package simruntime

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Usage is the use of resources that the statistics show.
type Usage struct {
	// NanoCores is the use of processors at that time, and Memory the working set in bytes.
	NanoCores, Memory uint64
}

// usage returns the use of a container. No process runs, so unless Config.Usage says otherwise, the statistics have the right
// structure, attributes and times, and zeros.
func (s *Server) usage(c *container, now time.Time) Usage {
	if s.cfg.Usage == nil || c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return Usage{}
	}
	return s.cfg.Usage(c.config.GetMetadata().GetName(), now)
}

func cpuAndMemory(u Usage, now time.Time) (*runtimeapi.CpuUsage, *runtimeapi.MemoryUsage) {
	zero, memory := &runtimeapi.UInt64Value{}, &runtimeapi.UInt64Value{Value: u.Memory}
	return &runtimeapi.CpuUsage{Timestamp: now.UnixNano(), UsageCoreNanoSeconds: zero, UsageNanoCores: &runtimeapi.UInt64Value{Value: u.NanoCores}},
		&runtimeapi.MemoryUsage{Timestamp: now.UnixNano(), WorkingSetBytes: memory, AvailableBytes: zero, UsageBytes: memory,
			RssBytes: memory, PageFaults: zero, MajorPageFaults: zero}
}

func (s *Server) containerStats(c *container) *runtimeapi.ContainerStats {
	now := s.clock.Now()
	cpu, memory := cpuAndMemory(s.usage(c, now), now)
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		},
		Cpu: cpu, Memory: memory,
		WritableLayer: &runtimeapi.FilesystemUsage{
			Timestamp: s.clock.Now().UnixNano(), UsedBytes: &runtimeapi.UInt64Value{}, InodesUsed: &runtimeapi.UInt64Value{},
		},
	}
}

func (s *Server) sandboxStats(b *sandbox) *runtimeapi.PodSandboxStats {
	now, zero := s.clock.Now(), &runtimeapi.UInt64Value{}
	var sum Usage
	for _, c := range b.containers {
		u := s.usage(c, now)
		sum.NanoCores += u.NanoCores
		sum.Memory += u.Memory
	}
	cpu, memory := cpuAndMemory(sum, now)
	stats := &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: b.id, Metadata: b.config.GetMetadata(), Labels: b.config.GetLabels(), Annotations: b.config.GetAnnotations(),
		},
		Linux: &runtimeapi.LinuxPodSandboxStats{
			Cpu: cpu, Memory: memory,
			Network: &runtimeapi.NetworkUsage{Timestamp: now.UnixNano(), DefaultInterface: &runtimeapi.NetworkInterfaceUsage{
				Name: "eth0", RxBytes: zero, RxErrors: zero, TxBytes: zero, TxErrors: zero,
			}},
			Process: &runtimeapi.ProcessUsage{Timestamp: now.UnixNano(), ProcessCount: zero},
		},
	}
	for _, c := range b.containers {
		if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			stats.Linux.Containers = append(stats.Linux.Containers, s.containerStats(c))
		}
	}
	return stats
}

// ContainerStats returns one container's stats. NotFound if it doesn't exist.
func (s *runtimeService) ContainerStats(_ context.Context, req *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatsResponse{Stats: s.containerStats(c)}, nil
}

// ListContainerStats returns the running containers' stats.
func (s *runtimeService) ListContainerStats(_ context.Context, req *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	return &runtimeapi.ListContainerStatsResponse{Stats: s.listContainerStats(req.GetFilter())}, nil
}

func (s *Server) listContainerStats(filter *runtimeapi.ContainerStatsFilter) []*runtimeapi.ContainerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	selector := &runtimeapi.ContainerFilter{
		Id: filter.GetId(), PodSandboxId: filter.GetPodSandboxId(), LabelSelector: filter.GetLabelSelector(),
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}
	var out []*runtimeapi.ContainerStats
	for _, c := range s.containers {
		if c.selected(selector) {
			out = append(out, s.containerStats(c))
		}
	}
	return out
}

// PodSandboxStats returns one sandbox's stats. NotFound if it doesn't exist.
func (s *runtimeService) PodSandboxStats(_ context.Context, req *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.findSandbox(req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: s.sandboxStats(b)}, nil
}

// ListPodSandboxStats returns the ready sandboxes' stats.
func (s *runtimeService) ListPodSandboxStats(_ context.Context, req *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return &runtimeapi.ListPodSandboxStatsResponse{Stats: s.listSandboxStats(req.GetFilter())}, nil
}

func (s *Server) listSandboxStats(filter *runtimeapi.PodSandboxStatsFilter) []*runtimeapi.PodSandboxStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	selector := &runtimeapi.PodSandboxFilter{
		Id: filter.GetId(), LabelSelector: filter.GetLabelSelector(),
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	}
	var out []*runtimeapi.PodSandboxStats
	for _, b := range s.sandboxes {
		if b.selected(selector) {
			out = append(out, s.sandboxStats(b))
		}
	}
	return out
}
