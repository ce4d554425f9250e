// Package stats reports the resource usage of the node, its pods and their containers: /stats/summary,
// /metrics/resource and /metrics/cadvisor of the node's API, with the names and labels of the kubelet and cAdvisor.
// kubectl top, autoscalers and dashboards read it. Usage is for podexec.v1.
//
// Nothing is read before a request. Concurrent requests share one reading, which is used for a second. A brief one,
// for CPU and memory, costs a few files of each cgroup; a whole one also asks the runtime and reads all the rest.
// Package diskusage counts each pod's files at most once a minute, and less often if that takes long. Package volumeusage
// has the last answers of drivers of persistent volumes, which no request waits for. As in the
// kubelet, cgroup files have precedence: the runtime is asked for writable layers, and for containers without a
// visible cgroup, as in a virtual machine.
//
// CPU usage in nanocores is the difference of two readings at least ten seconds apart; the first reading has none.
//
// Each reading is a goroutine, so that a file or a runtime that doesn't answer blocks no request; only one reading
// of a kind is under way. Close waits for them, for at most a second. shared, rates and moment have locks, which are
// never held together, nor during reading.
//
// /metrics/cadvisor also counts the files and threads of each container's processes, within a limit of time and of
// files for each container. Only its scrapes read them.
//
// container_oom_events_total are the kernel's counters. cAdvisor counts lines of the kernel's log instead, and a kill
// of a system OOM only for the machine.
//
// In contrast to the kubelet, a pod in the node's network has no network stats, and of two pods of one name
// /metrics/resource has the newer.
//
// Package kernel reads the files. The conversion of a reading (summary, series) is pure. The package changes
// nothing.
package stats
