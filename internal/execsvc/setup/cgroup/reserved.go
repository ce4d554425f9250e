package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fscommon"
	v1 "k8s.io/api/core/v1"
)

// Reserved is an existing cgroup of daemons that are no pods, and what is reserved for them.
type Reserved struct {
	// Name is kubeReservedCgroup or systemReservedCgroup: a path, or the path of a slice for Systemd.
	Name string
	// Driver is Cgroupfs or Systemd.
	Driver string
	// Root is that of Config: the cgroup of all pods is in it, and must not be limited.
	Root string
	// Resources is kubeReserved or systemReserved: cpu, memory and pid.
	Resources v1.ResourceList
	// Compressible sets only the cpu share.
	Compressible bool
	// ReserveMemory is that of Config: the memory is protected as well as limited.
	ReserveMemory bool
}

// Enforce limits the cgroup to its resources: memory and processes at most, a share of the cpu, and no huge pages, which
// are all for pods. The cpuset stays. It is an error if the cgroup doesn't exist: Enforce makes none.
//
// The memory limit isn't lowered below what the daemons use and the kernel can't reclaim. The error is ErrBusy then: v1
// rejects such a limit, and with v2 the kernel would kill the daemons.
func (r Reserved) Enforce() error {
	s := settings{v2: cgroups.IsCgroup2UnifiedMode(), reserve: r.ReserveMemory}
	d := driver{systemd: r.Driver == Systemd, v2: s.v2}
	n, err := r.parse()
	if err != nil {
		return err
	}
	if pods := newLayout(r.Root).kubepods; d.within(n, pods) || d.within(pods, n) {
		return fmt.Errorf("cgroup %q is %s, of all pods, or above or below it: pods would be limited to what is reserved for daemons", r.Name, d.path(pods))
	}
	g, err := d.open(n)
	if err != nil {
		return err
	}
	return r.enforce(s, g)
}

// within reports whether a cgroup is another one, or below it.
func (d driver) within(n, of name) bool { return strings.HasPrefix(d.path(n)+"/", d.path(of)+"/") }

// parse returns the cgroup's name. That of a slice is all in its last part, in which dashes separate levels.
func (r Reserved) parse() (name, error) {
	n := parseName(r.Name)
	if r.Driver == Systemd {
		n = strings.Split(strings.TrimSuffix(path.Base(path.Join("/", r.Name)), ".slice"), "-")
		for i := range n {
			n[i] = strings.ReplaceAll(n[i], "_", "-")
		}
	}
	if len(n) == 0 || slices.ContainsFunc(n, func(part string) bool { return part == "" || part == "/" }) {
		return nil, fmt.Errorf("cgroup %q is the root, or no name of a slice", r.Name)
	}
	return n, nil
}

func (r Reserved) enforce(s settings, g group) error {
	want, needs := r.limits(s)
	if err := r.exists(g, needs); err != nil {
		return err
	}
	if !r.Compressible {
		for _, size := range g.existingPageSizes() {
			want.HugetlbLimit = append(want.HugetlbLimit, &cgroups.HugepageLimit{Pagesize: size})
		}
	}
	if g.v2 && want.Memory > 0 {
		if err := g.fits(want.Memory); err != nil {
			return err
		}
	}
	return g.setCopy(want)
}

// limits returns the cgroup's limits, and the controllers that they need.
func (r Reserved) limits(s settings) (want cgroups.Resources, needs []string) {
	want = skipping()
	if cpu, ok := r.Resources[v1.ResourceCPU]; ok {
		s.setShares(&want, cpu.MilliValue())
		needs = append(needs, "cpu")
	}
	if r.Compressible {
		return want, needs
	}
	if memory, ok := r.Resources[v1.ResourceMemory]; ok && !memory.IsZero() {
		want.Memory = memory.Value()
		needs = append(needs, "memory")
		if s.reserve {
			s.setReserved(&want, want.Memory, 0)
			delete(want.Unified, "memory.low")
		}
	}
	if pids, ok := r.Resources[pidsResource]; ok && !pids.IsZero() {
		limit := pids.Value()
		want.PidsLimit = &limit
		needs = append(needs, "pids")
	}
	return want, needs
}

// exists returns an error if the cgroup doesn't exist, or lacks a controller.
func (r Reserved) exists(g group, needs []string) error {
	var missing []string
	if !g.v2 {
		if len(needs) == 0 {
			needs = []string{"memory"} // Any shows whether there is such a cgroup.
		}
		for _, controller := range needs {
			if dir := g.Path(controller); !isDir(dir) {
				missing = append(missing, cmp.Or(dir, controller))
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("cgroup %q has some missing paths: %s", r.Name, strings.Join(missing, ", "))
		}
		return nil
	}
	text, err := fscommon.GetCgroupParamString(g.Path(""), "cgroup.controllers")
	if err != nil {
		return fmt.Errorf("could not read controllers for cgroup %q: %w", r.Name, err)
	}
	for _, controller := range needs {
		if !slices.Contains(strings.Fields(text), controller) {
			missing = append(missing, controller)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cgroup %q has some missing controllers: %s", r.Name, strings.Join(missing, ", "))
	}
	return nil
}

// existingPageSizes is pageSizes for a cgroup that podexecd didn't make: on v1 it may not exist in that hierarchy.
func (g group) existingPageSizes() []string {
	if !g.v2 && !isDir(g.Path("hugetlb")) {
		return nil
	}
	return g.pageSizes()
}

// fits returns ErrBusy if more memory is in use than a lower limit, even after all caches are reclaimed.
func (g group) fits(limit int64) error {
	have, err := fscommon.GetCgroupParamUint(g.Path(""), "memory.max")
	if err != nil || !looser(readLimit(have), limit) {
		return err
	}
	used, err := g.usage()
	if err != nil {
		return err
	}
	for _, cache := range []string{"active_file", "inactive_file", "slab_reclaimable"} {
		size, err := fscommon.GetValueByKey(g.Path(""), "memory.stat", cache)
		if err != nil {
			return errors.Join(fmt.Errorf("memory.stat has no %s", cache), err)
		}
		used -= int64(min(size, uint64(max(used, 0)))) //nolint:gosec // It is at most used.
	}
	if used > limit {
		return fmt.Errorf("%w: %d bytes of memory are in use besides caches, and the limit is to be %d", ErrBusy, used, limit)
	}
	return nil
}
