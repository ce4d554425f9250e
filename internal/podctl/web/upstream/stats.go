package upstream

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

const (
	// unknown is a number that isn't known.
	unknown = -1
	// maxStats bounds the values of a sample.
	maxStats = 5000
)

// PodexecdStats returns the StatsSource of a podexecd. Its network rates need two samples.
func PodexecdStats(d *Daemon) StatsSource {
	r := &statsReader{api: podexecv1.NewPodExecServiceClient(d.Conn), before: map[string]traffic{}}
	return r.sample
}

// statsReader keeps the counters of the last sample. One goroutine uses it.
type statsReader struct {
	api    podexecv1.PodExecServiceClient
	before map[string]traffic
}

// traffic is what the interfaces of the node, or of a pod, have received and sent so far.
type traffic struct {
	at             time.Time
	received, sent uint64
}

func (r *statsReader) sample(ctx context.Context) ([]*podwebv1.StatsValue, error) {
	resp, err := r.api.GetStats(ctx, &podexecv1.GetStatsRequest{}, grpc.MaxCallRecvMsgSize(maxList))
	if err != nil {
		return nil, err
	}
	next := map[string]traffic{}
	defer func() { r.before = next }()
	var out []*podwebv1.StatsValue
	if node := resp.GetNode(); node != nil {
		v := value(node.GetCpu(), node.GetMemory())
		v.MemoryLimit = min(max(node.GetCapacityMemoryBytes(), 0), math.MaxInt64)
		v.Received, v.Sent = r.rates("", node.GetNetwork(), next)
		out = append(out, v)
	}
	for _, pod := range resp.GetPods() {
		key := board.Key("pod", pod.GetRef().GetUid())
		v := value(pod.GetCpu(), pod.GetMemory())
		v.PodKey, v.Pod = key, board.Name(pod.GetRef())
		v.Received, v.Sent = r.rates(key, pod.GetNetwork(), next)
		out = append(out, v)
		for _, c := range pod.GetContainers() {
			v := value(c.GetCpu(), c.GetMemory())
			v.PodKey, v.Container, v.Received, v.Sent = key, plaintext.Line(c.GetName(), plaintext.Name), unknown, unknown
			out = append(out, v)
		}
		if len(out) > maxStats {
			break
		}
	}
	return out, nil
}

// value returns the use of CPU and memory.
func value(cpu *podexecv1.CPUStats, memory *podexecv1.MemoryStats) *podwebv1.StatsValue {
	const milli = 1000
	v := &podwebv1.StatsValue{Cpu: unknown, Memory: unknown}
	if cpu != nil && cpu.UsageMillicores != nil {
		v.Cpu = float64(cpu.GetUsageMillicores()) / milli
	}
	if memory != nil {
		v.Memory = int64(min(memory.GetWorkingSetBytes(), math.MaxInt64)) //nolint:gosec // It is bounded.
	}
	return v
}

// rates returns the bytes in a second since the last sample.
func (r *statsReader) rates(key string, n *podexecv1.NetworkStats, next map[string]traffic) (received, sent float64) {
	if n == nil || n.GetTime() == nil {
		return unknown, unknown
	}
	now := traffic{at: n.GetTime().AsTime()}
	for _, i := range n.GetInterfaces() {
		now.received += i.GetReceivedBytes()
		now.sent += i.GetSentBytes()
	}
	next[key] = now
	before, known := r.before[key]
	passed := now.at.Sub(before.at).Seconds()
	// Counters begin again with a pod.
	if !known || passed <= 0 || now.received < before.received || now.sent < before.sent {
		return unknown, unknown
	}
	return float64(now.received-before.received) / passed, float64(now.sent-before.sent) / passed
}
