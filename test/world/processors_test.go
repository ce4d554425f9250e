package world

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestProcessors: a container finds all processors of the node, and computes on two of them at the same time.
func TestProcessors(t *testing.T) {
	t.Parallel()
	if !can(t, processors, nil, "cpu-limit") {
		return
	}
	on(t, latest, func(t *testing.T, b *bench) {
		p := newPod(t, b, "processors")
		p.write("", `
volumes: [{name: guest, hostPath: {path: "{{guest}}", type: File}}]
containers:
- name: main
  command: [/guest, parallel]
  volumeMounts: [{name: guest, mountPath: /guest}]
  resources: {requests: {cpu: 1000m}, limits: {cpu: 1500m}}
- {name: other, resources: {requests: {cpu: 10m}, limits: {cpu: 500m}}}`, nil, nil)
		p.awaitLine("main", "parallel")
		found, err := p.limits("burstable")
		check(t, err)
		r := p.reports()["other"]
		check(t, errors.Join(
			compareBounds("the pod", found, bounds{shares: 1034, cpu: "200000/100000"}),
			compareBounds("other", r.Limits, bounds{shares: 10, cpu: "50000/100000"}),
			same("its processors", r.Processors, runtime.NumCPU())))
	})
}

// TestHugePages: a container gets as many huge pages as its limit says, and no more, although the node has more. By
// default, containerd sets no limit of huge pages for a container: podexecd's limit of the pod holds.
func TestHugePages(t *testing.T) {
	t.Parallel()
	if !can(t, hugePages, nil, "hugepages-of-both-sizes") {
		return
	}
	on(t, latest, func(t *testing.T, b *bench) {
		p := newPod(t, b, "huge pages")
		p.write("", `
volumes: [{name: guest, hostPath: {path: "{{guest}}", type: File}}]
containers:
- name: main
  command: [/guest, huge]
  volumeMounts: [{name: guest, mountPath: /guest}]
  resources: {limits: {hugepages-2Mi: 4Mi, cpu: 100m, memory: 32Mi}}`, nil, nil)
		p.awaitLine("main", "huge pages: 2")
		dirs, err := p.cgroups()
		check(t, err)
		var limits []string
		for _, dir := range dirs {
			for _, name := range []string{"hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"} {
				if value, err := readValue(dir, name); err == nil {
					limits = append(limits, value)
				}
			}
		}
		check(t, same("the pod's limit", limits, []string{"4194304"}))
	})
}

// TestCpuset: podexecd binds no container to processors. The cgroups of pods have the controller cpuset, so that what
// the owner of the node sets for all pods holds for each container.
func TestCpuset(t *testing.T) {
	t.Parallel()
	if !can(t, cpusets, nil, "cpu-request") || !can(t, processors, nil, "cpu-request") {
		return
	}
	const spec = `{containers: [{name: main}, {name: limited, resources: {limits: {cpu: 100m, memory: 32Mi}}}]}`
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		all, err := readValue("/sys/fs/cgroup", "cpuset.cpus.effective")
		check(t, err)
		unbound := newPod(t, b, "cpuset of the node")
		unbound.write("", spec, nil, nil)
		wantCpuset(t, unbound, all, runtime.NumCPU())

		first, _, _ := strings.Cut(strings.ReplaceAll(all, "-", ","), ",")
		check(t, os.WriteFile(filepath.Join(allPods(t, b), "cpuset.cpus"), []byte(first), 0o644))
		bound := newPod(t, b, "cpuset of all pods")
		bound.write("", spec, nil, nil)
		wantCpuset(t, bound, first, 1)
	})
}

// allPods returns the directory of the cgroup of all pods of a bench, with cgroup v2.
func allPods(t *testing.T, b *bench) string {
	t.Helper()
	dirs, err := b.Node.CgroupDirs()
	check(t, err)
	for _, dir := range dirs {
		if strings.HasSuffix(dir, "/"+b.Name+"-podexecd/kubepods") {
			return dir
		}
	}
	t.Fatalf("the cgroups are %q; want one of all pods", dirs)
	return ""
}

// wantCpuset expects that each container finds these processors, and that its own cgroup sets none.
func wantCpuset(t *testing.T, p *pod, effective string, processors int) {
	t.Helper()
	for name, r := range p.reports() {
		check(t, errors.Join(
			same("cpuset.cpus of "+name, r.Limits["cpuset.cpus"], ""),
			same("cpuset.cpus.effective of "+name, r.Limits["cpuset.cpus.effective"], effective),
			same("the processors of "+name, r.Processors, processors)))
	}
}
