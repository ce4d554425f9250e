// Package podbench measures what it takes to run pods through both daemons on a real containerd, in turn with bare CRI calls for the
// same pods as the floor: from manifest to running process, one by one and in batches; from a process's exit to the next one's start;
// from a readiness probe's answer to the status at a watcher; what 20 volumes and pods' own cgroups add to a start; and what a hundred
// idle pods cost. `make bench-pods` prints it.
//
// Nodes are alike but for who drives their containerd: on some it is the daemons, on the others the benchmark itself, with the messages
// that podexecd would send. All pods of such a node are in one cgroup, and their volumes are there before they start. That a process runs
// is known from the process: a pod has a pipe mounted, and writes a line to it first of all.
//
// It needs root and containerd, and skips otherwise. PODSTREAM_BENCH_FULL=1 watches idle pods for a minute instead of 20 s.
package podbench
