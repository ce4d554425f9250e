package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// controller is a controller of cgroups.
type controller struct {
	name string
	// option is the option that a kernel is built with to have it.
	option string
	// versions are the versions of cgroups in which it is one: "v1", "v2", or both.
	versions string
	// without is what a node without it can't do. A controller that pods need has none.
	without string
}

// controllers are those that podexecd uses. It writes cpu, memory and pids for each pod, and its library of cgroups
// accepts no v1 without devices.
var controllers = []controller{
	{"cpu", "CONFIG_CGROUP_SCHED", "v1 v2", ""},
	{"memory", "CONFIG_MEMCG", "v1 v2", ""},
	{"pids", "CONFIG_CGROUP_PIDS", "v1 v2", ""},
	{"devices", "CONFIG_CGROUP_DEVICE", "v1", ""},
	{"cpuacct", "CONFIG_CGROUP_CPUACCT", "v1", "the CPU usage of pods is unknown"},
	{"cpuset", "CONFIG_CPUSETS", "v1 v2", "containers can't be bound to processors, which podexecd doesn't do"},
	{"hugetlb", "CONFIG_CGROUP_HUGETLB", "v1 v2", "limits of huge pages aren't enforced, and this node has no huge pages"},
}

// tree is what the machine has of cgroups.
type tree struct {
	// version is "v1" or "v2". A hybrid system has v1 for the controllers, and counts as that.
	version string
	hybrid  bool
	// has are the controllers.
	has []string
	// nested is set if the root of v2 isn't the machine's: podctl runs in a container, or the machine is one.
	nested bool
}

// cgroupMount is the directory of all cgroups.
const cgroupMount = "/sys/fs/cgroup"

func (e *examination) tree() tree {
	if text, err := os.ReadFile(e.path(cgroupMount + "/cgroup.controllers")); err == nil {
		_, err := os.Stat(e.path(cgroupMount + "/cgroup.type")) // the machine's root has none
		return tree{version: "v2", has: strings.Fields(string(text)), nested: err == nil}
	}
	t := tree{version: "v1"}
	for _, m := range e.mounts("self") {
		switch m.kind {
		case "cgroup":
			t.has = append(t.has, strings.Split(m.options, ",")...)
		case "cgroup2":
			t.hybrid = true
		}
	}
	return t
}

// cgroups checks the kernel's cgroups.
func (e *examination) cgroups(context.Context) []Finding {
	if !e.Podexec.Settings.CgroupsPerQOS {
		return []Finding{{"cgroups", Warning, "pods have no cgroups of their own (--cgroups-per-qos=false)", "nothing, if that is meant"}}
	}
	t := e.tree()
	var found []Finding
	var have, lacks []string
	for _, c := range controllers {
		switch {
		case !strings.Contains(c.versions, t.version):
		case slices.Contains(t.has, c.name):
			have = append(have, c.name)
		case c.without == "":
			found = append(found, Finding{"cgroups", Failed,
				fmt.Sprintf("cgroup %s lacks the controller %s, which the cgroup of each pod needs: podexecd ends when it is started", t.version, c.name),
				e.gain(t, c) + "; podexecd runs without pods' cgroups with --cgroups-per-qos=false"})
		case c.name == "hugetlb" && e.hugePages():
			found = append(found, Finding{"cgroups", Warning,
				fmt.Sprintf("cgroup %s lacks the controller hugetlb: a pod may use more of the node's huge pages than its limit", t.version), e.gain(t, c)})
		default:
			lacks = append(lacks, c.name+" ("+c.without+")")
		}
	}
	if f := e.passedOn(t); f != nil {
		found = append(found, *f)
	}
	if t.version == "v2" && !e.exists("proc/pressure/memory") {
		lacks = append(lacks, "PSI (the statistics of pods have no pressure)")
	}
	text := t.version + " with " + strings.Join(have, ", ")
	if len(lacks) > 0 {
		text += "; without " + strings.Join(lacks, ", ")
	}
	switch {
	case len(found) > 0:
	case t.version == "v1":
		if t.hybrid {
			text = "hybrid: " + text
		}
		found = append(found, Finding{"cgroups", Warning,
			text + ". Pods run, but without swap of their own, memory reservations and pressure; the kubelet refuses v1 by default since Kubernetes 1.35",
			e.unify()})
	default:
		found = append(found, Finding{"cgroups", OK, text, ""})
	}
	return found
}

// unify advises how a machine gets cgroup v2.
func (e *examination) unify() string {
	if e.exists("run/systemd/system") {
		return "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, after the pods have been drained"
	}
	return "mount cgroup2 at /sys/fs/cgroup at boot, in place of the hierarchies of v1"
}

// gain advises how a machine gets a controller that it lacks.
func (e *examination) gain(t tree, c controller) string {
	if line := e.text("proc/cmdline"); slices.ContainsFunc(strings.Fields(line), func(option string) bool {
		names, ok := strings.CutPrefix(option, "cgroup_disable=")
		return ok && slices.Contains(strings.Split(names, ","), c.name)
	}) {
		return fmt.Sprintf("remove cgroup_disable=%s from the kernel's command line", c.name)
	}
	// Recent kernels list there only the controllers that v1 can have.
	for line := range strings.Lines(e.text("proc/cgroups")) {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] != c.name {
			continue
		}
		switch {
		case fields[3] == "0":
			return fmt.Sprintf("the kernel has it, and it is disabled: boot with cgroup_enable=%s", c.name)
		case fields[1] != "0" && t.version == "v2":
			return fmt.Sprintf("a hierarchy of cgroup v1 has it: unmount that (findmnt -t cgroup), or boot with cgroup_no_v1=%s", c.name)
		case fields[1] == "0" && t.version == "v1":
			return fmt.Sprintf("mount it: mkdir -p /sys/fs/cgroup/%[1]s; mount -t cgroup -o %[1]s cgroup /sys/fs/cgroup/%[1]s", c.name)
		}
	}
	if t.nested {
		return fmt.Sprintf("this is a container or a part of a machine: let it have %s by the cgroup.subtree_control above it", c.name)
	}
	return "use a kernel that is built with " + c.option
}

// passedOn checks whether the pods' cgroup of v2 has the controllers that the root has.
func (e *examination) passedOn(t tree) *Finding {
	if t.version != "v2" {
		return nil
	}
	for _, dir := range []string{"kubepods", "kubepods.slice"} {
		path := filepath.Join(cgroupMount, e.Podexec.Settings.CgroupRoot, dir)
		text, err := os.ReadFile(e.path(filepath.Join(path, "cgroup.controllers")))
		if err != nil {
			continue // it isn't the driver's, or there were no pods yet
		}
		var missing []string
		for _, c := range controllers {
			if c.without == "" && slices.Contains(t.has, c.name) && !slices.Contains(strings.Fields(string(text)), c.name) {
				missing = append(missing, c.name)
			}
		}
		if len(missing) > 0 {
			return &Finding{"cgroups", Failed,
				fmt.Sprintf("%s lacks %s, which the machine has: pods don't start, as their limits can't be set", path, strings.Join(missing, ", ")),
				fmt.Sprintf("write +%s to %s; another program took it away, or a unit of systemd has DisableControllers=",
					strings.Join(missing, " +"), filepath.Join(filepath.Dir(path), "cgroup.subtree_control"))}
		}
	}
	return nil
}

// hugePages reports whether the node has huge pages.
func (e *examination) hugePages() bool {
	files, _ := filepath.Glob(e.path("sys/kernel/mm/hugepages/*/nr_hugepages")) // The only error is that of a bad pattern.
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(text)) != "0"
	})
}
