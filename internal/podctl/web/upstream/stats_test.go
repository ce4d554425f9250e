package upstream_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestStats: CPU and memory are as podexecd reports them; the network's rates come of two samples, and not across a restart of the
// counters.
func TestStats(t *testing.T) {
	e := webtest.NewPodexecd(t)
	var mu sync.Mutex // of the two below: podexecd answers in its own goroutine
	second, received := 0, uint64(1000)
	e.Stats = func() *podexecv1.GetStatsResponse {
		mu.Lock()
		defer mu.Unlock()
		now := timestamppb.New(podctltest.Noon.Add(time.Duration(second) * time.Second))
		millicores := int64(1500)
		network := &podexecv1.NetworkStats{Time: now, Interfaces: []*podexecv1.InterfaceStats{{ReceivedBytes: received, SentBytes: 7}}}
		return &podexecv1.GetStatsResponse{
			Node: &podexecv1.NodeStats{Cpu: &podexecv1.CPUStats{UsageMillicores: &millicores}, CapacityMemoryBytes: 64, Network: network},
			Pods: []*podexecv1.PodStats{{
				Ref: &podconfigv1.PodRef{Uid: "u", Name: "web"}, Memory: &podexecv1.MemoryStats{WorkingSetBytes: 5}, Network: network,
				Containers: []*podexecv1.ContainerStats{{Name: "c", Cpu: &podexecv1.CPUStats{}}},
			}},
		}
	}
	sample := upstream.PodexecdStats(e.Daemon())
	for i, want := range []float64{-1, 500, -1} {
		values, err := sample(context.Background())
		if err != nil || len(values) != 3 {
			t.Fatalf("sample %d: %v, %v", i, values, err)
		}
		node, pod, container := values[0], values[1], values[2]
		if node.GetCpu() != 1.5 || node.GetMemory() != -1 || node.GetMemoryLimit() != 64 || node.GetReceived() != want {
			t.Errorf("sample %d of the node is %v; want %v bytes a second", i, node, want)
		}
		if pod.GetPodKey() != board.Key("pod", "u") || pod.GetMemory() != 5 || pod.GetCpu() != -1 || pod.GetReceived() != want {
			t.Errorf("sample %d of the pod is %v", i, pod)
		}
		if container.GetContainer() != "c" || container.GetCpu() != -1 || container.GetReceived() != -1 {
			t.Errorf("sample %d of the container is %v", i, container)
		}
		mu.Lock()
		second += 2
		if received += 1000; i == 1 {
			received = 3
		}
		mu.Unlock()
	}
}
