// Package stats tells what the node, its pods and their containers use: /stats/summary, /metrics/resource and /metrics/cadvisor of the node's API,
// by the names and labels of the kubelet and of cAdvisor. It is what kubectl top, autoscalers and dashboards read.
//
// Nothing is read until somebody asks. A reading is taken once for all who ask at the time, and serves for a second. A brief one, for
// processors and memory, costs a few files of each cgroup; a whole one also asks the runtime and reads all the rest; what pods have on disk is
// counted once a minute at most, and less often where that takes long. What stands in cgroup files is taken from there, as the kubelet does: the
// runtime is asked for writable layers, and for whatever runs in no cgroup that can be seen here, as in a virtual machine.
//
// The use of processors in nanocores is between two readings ten seconds apart or more; there is none in the first.
//
// Each reading is a goroutine, so that a file or a runtime that doesn't answer holds up neither those who ask nor a second goroutine: while one
// is under way, nobody begins another. Close waits for them, a moment at most. There are locks in shared, rates and moment, never held together,
// nor while anything is read.
//
// Other than with the kubelet, a pod that uses the node's network has none of its own, and of two pods of one name /metrics/resource has the newer.
//
// Beneath it package kernel reads files. What a reading comes to (summary, series) is pure. The package changes nothing.
package stats
