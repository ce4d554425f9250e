package podctl

import (
	"context"
	"fmt"
	"math"
	"time"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

const (
	// samplePause is the time between two readings if podexecd can't say what is used now. podexecd keeps a reading for a
	// second.
	samplePause = 1100 * time.Millisecond
	// oldInterval is the length of an interval whose mean says too little about now.
	oldInterval = time.Minute
)

// sample returns the stats with the use of CPU by each object. podexecd knows it since the last request only. If there was
// none, or it was long ago, sample asks twice.
func (t *tool) sample(ctx context.Context, req *podexecv1.GetStatsRequest) (*podexecv1.GetStatsResponse, error) {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := podexecv1.NewPodExecServiceClient(conn)
	ask := func() (*podexecv1.GetStatsResponse, error) {
		ctx, cancel := t.listContext(ctx)
		defer cancel()
		resp, err := client.GetStats(ctx, req)
		return resp, conn.explain(err)
	}
	first, err := ask()
	if err != nil || !lacksUse(first) {
		return first, err
	}
	select {
	case <-t.Clock.After(samplePause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	second, err := ask()
	if err != nil {
		return nil, err
	}
	addUse(first, second)
	return second, nil
}

// cpuOf returns the CPU stats of all objects, by a key of each.
func cpuOf(stats *podexecv1.GetStatsResponse) map[string]*podexecv1.CPUStats {
	all := map[string]*podexecv1.CPUStats{"": stats.GetNode().GetCpu()}
	for _, p := range stats.GetPods() {
		uid := p.GetRef().GetUid()
		all["pod "+uid] = p.GetCpu()
		for _, c := range p.GetContainers() {
			all["container "+uid+" "+c.GetName()] = c.GetCpu()
		}
	}
	return all
}

// lacksUse reports whether the use of an object isn't known, or is that of long ago.
func lacksUse(stats *podexecv1.GetStatsResponse) bool {
	for _, cpu := range cpuOf(stats) {
		if cpu != nil && (cpu.UsageMillicores == nil || cpu.GetIntervalNanoseconds() > int64(oldInterval)) {
			return true
		}
	}
	return false
}

// addUse sets the use in the second stats to that since the first.
func addUse(first, second *podexecv1.GetStatsResponse) {
	before := cpuOf(first)
	for key, now := range cpuOf(second) {
		since := before[key]
		if now == nil || since == nil || now.GetUsageCoreNanoseconds() < since.GetUsageCoreNanoseconds() {
			continue
		}
		over := now.GetTime().AsTime().Sub(since.GetTime().AsTime())
		if over <= 0 {
			continue
		}
		used := float64(now.GetUsageCoreNanoseconds()-since.GetUsageCoreNanoseconds()) / float64(over) * 1000
		now.UsageMillicores, now.IntervalNanoseconds = new(int64(min(math.Ceil(used), math.MaxInt32))), int64(over)
	}
}

// cpuText returns the use of CPU as kubectl top prints it; empty if it isn't known.
func cpuText(cpu *podexecv1.CPUStats) string {
	if cpu == nil || cpu.UsageMillicores == nil {
		return ""
	}
	return fmt.Sprintf("%dm", cpu.GetUsageMillicores())
}

// memoryText returns the working set as kubectl top prints it; empty if it isn't known.
func memoryText(memory *podexecv1.MemoryStats) string {
	if memory == nil {
		return ""
	}
	return mebibytes(memory.GetWorkingSetBytes())
}

func mebibytes(bytes uint64) string { return fmt.Sprintf("%dMi", bytes>>20) }

// trafficText returns the bytes of all interfaces in one direction; empty if there are none.
func trafficText(network *podexecv1.NetworkStats, of func(*podexecv1.InterfaceStats) uint64) string {
	if network == nil {
		return ""
	}
	var sum uint64
	for _, i := range network.GetInterfaces() {
		sum += of(i)
	}
	return mebibytes(sum)
}

// percentText returns how much of all is used; empty if all isn't known.
func percentText(used, all int64) string {
	if all <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int64(float64(used)*100/float64(all)))
}
