package stats

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
)

// resourceMetrics returns the metrics of /metrics/resource, with the kubelet's stability levels
// (pkg/kubelet/metrics/collectors).
func resourceMetrics(r *reading, failed bool) []*dto.MetricFamily {
	var (
		nodeCPU    = newFamily("node_cpu_usage_seconds_total", "[STABLE] Time that the node's processors were in use, in core-seconds.", count)
		nodeMemory = newFamily("node_memory_working_set_bytes", "[STABLE] Working set of the node, in bytes.", gauge)
		nodeSwap   = newFamily("node_swap_usage_bytes", "[ALPHA] Swap that is in use on the node, in bytes.", gauge)
		start      = newFamily("container_start_time_seconds", "[STABLE] When the container was made, in seconds since 1970.", gauge)
		cpu        = newFamily("container_cpu_usage_seconds_total", "[STABLE] Time that the container has used processors, in core-seconds.", count)
		memory     = newFamily("container_memory_working_set_bytes", "[STABLE] Working set of the container, in bytes.", gauge)
		swap       = newFamily("container_swap_usage_bytes", "[ALPHA] Swap that the container uses, in bytes.", gauge)
		swapLimit  = newFamily("container_swap_limit_bytes", "[ALPHA] Swap that the container may use, in bytes.", gauge)
		podCPU     = newFamily("pod_cpu_usage_seconds_total", "[STABLE] Time that the pod has used processors, in core-seconds.", count)
		podMemory  = newFamily("pod_memory_working_set_bytes", "[STABLE] Working set of the pod, in bytes.", gauge)
		podSwap    = newFamily("pod_swap_usage_bytes", "[ALPHA] Swap that the pod uses, in bytes.", gauge)
		scrape     = newFamily("resource_scrape_error", "[STABLE] 1 if not everything could be read, else 0.", gauge)
	)
	add := func(u used, l labels, cpu, memory, swap *family) {
		if u.Usage == nil {
			return
		}
		if u.CPU.Total != nil {
			cpu.add(seconds(*u.CPU.Total), u.At, l)
		}
		if u.Memory.WorkingSet != nil {
			memory.add(float64(*u.Memory.WorkingSet), u.At, l)
		}
		if u.Memory.Swap != nil {
			swap.add(float64(*u.Memory.Swap), u.At, l)
		}
	}
	if r != nil && r.machine != nil {
		add(used{Usage: &r.machine.Usage}, nil, nodeCPU, nodeMemory, nodeSwap)
	}
	if r != nil {
		for _, p := range newest(r.pods) {
			ofPod := newLabels("namespace", p.namespace, "pod", p.name)
			for _, c := range p.containers {
				l := ofPod.with("container", c.name)
				if c.Usage != nil && c.created.Unix() > 0 {
					start.add(float64(c.created.UnixNano())/float64(time.Second), time.Time{}, l)
				}
				add(c.used, l, cpu, memory, swap)
				if c.Usage != nil && c.Memory.SwapLimit != nil && *c.Memory.SwapLimit != kernel.Unlimited {
					swapLimit.add(float64(*c.Memory.SwapLimit), c.At, l)
				}
			}
			add(p.used, ofPod, podCPU, podMemory, podSwap)
		}
	}
	result := 0.0
	if failed {
		result = 1
	}
	scrape.add(result, time.Time{}, nil)
	return gathered([]*family{nodeCPU, nodeMemory, nodeSwap, start, cpu, memory, swap, swapLimit, podCPU, podMemory, podSwap, scrape})
}
