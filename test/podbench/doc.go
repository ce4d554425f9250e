// Package podbench measures pods through both daemons on a real containerd, alternating with bare CRI calls for the
// same pods as the lower bound: from manifest to running process, one by one and in batches; from a process's exit to
// the next one's start; from a readiness probe's answer to the status at a watcher; the cost of 20 volumes, of ten volumes
// of a slow CSI driver, and of pods' own cgroups at a start; the cost of a hundred idle pods; and the memory of the daemons with fifty. `make bench-pods`
// prints it.
//
// Nodes differ only in the driver of their containerd: on some the daemons, on the others the benchmark itself, with
// podexecd's messages. All pods of such a node are in one cgroup, and their volumes exist before they start. The
// process itself shows that it runs: a pod has a pipe mounted, and first writes a line to it.
//
// With -kubelet=PROGRAM, a kubelet without an API server runs the same static pods in turn with them, one by one and in
// batches, on a node of its own. KUBELET=1 make bench-pods builds one.
//
// -before=DIR has BenchmarkFootprint measure the daemons in that directory too, at the same time.
//
// It needs root and containerd, and skips otherwise. PODSTREAM_BENCH_FULL=1 watches idle pods for a minute instead of
// 20 s.
package podbench
