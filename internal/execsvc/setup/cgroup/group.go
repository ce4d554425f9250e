package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fscommon"
	"github.com/opencontainers/cgroups/manager"
)

// driver is the way in which cgroups are made: by podexecd itself, or by systemd on its behalf.
type driver struct{ systemd, v2 bool }

// path returns the name in the spelling of the runtime's driver.
func (d driver) path(n name) string {
	if d.systemd {
		return n.systemd()
	}
	return n.cgroupfs()
}

// config returns the library's config of the cgroup.
func (d driver) config(n name) *cgroups.Cgroup {
	r := skipping()
	if !d.systemd {
		return &cgroups.Cgroup{Path: n.cgroupfs(), Resources: &r}
	}
	parent, unit := path.Split(n.systemd())
	if parent = path.Base(parent); parent == "/" {
		parent = "-.slice"
	}
	return &cgroups.Cgroup{Systemd: true, Parent: parent, Name: unit, Resources: &r}
}

// group is one cgroup, which may not exist: a directory, or on v1 one in each hierarchy.
type group struct {
	driver
	cgroups.Manager
}

func (d driver) open(n name) (group, error) {
	m, err := manager.New(d.config(n))
	return group{driver: d, Manager: m}, err
}

// devices is the v1 hierarchy in which only the runtime makes directories.
const devices = "devices"

// exists reports whether all of the cgroup exists.
func (g group) exists() bool {
	for controller, dir := range g.GetPaths() {
		if controller != devices && !isDir(dir) {
			return false
		}
	}
	return true
}

// dirs returns the cgroup's existing directories.
func (g group) dirs() []string {
	var dirs []string
	for _, dir := range g.GetPaths() {
		if isDir(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// create creates the cgroup and its missing parents.
func (g group) create() error { return g.Apply(-1) }

// set applies the resources that are set. If the memory limit is below the usage, it returns ErrBusy and applies the
// others.
func (g group) set(r cgroups.Resources) error {
	have, err := g.limits()
	if err != nil {
		return err
	}
	// v1 itself rejects a memory limit below the usage; v2 would kill processes.
	r.MemoryCheckBeforeUpdate = looser(have.Memory, r.Memory)
	err = g.setCopy(r)
	if err == nil || !looser(have.Memory, r.Memory) {
		return err
	}
	usage, usageErr := g.usage()
	if usageErr != nil || usage < r.Memory {
		return err
	}
	limit := r.Memory
	r.Memory = 0
	busy := fmt.Errorf("%w: %d bytes of memory are in use, and the limit is to be %d", ErrBusy, usage, limit)
	return errors.Join(busy, g.setCopy(r))
}

// setCopy calls Set with a copy, as the library changes its argument.
func (g group) setCopy(r cgroups.Resources) error { return g.Set(&r) }

// usage returns the memory in use in bytes, including reclaimable memory.
func (g group) usage() (int64, error) {
	file := "memory.usage_in_bytes"
	if g.v2 {
		file = "memory.current"
	}
	usage, err := fscommon.GetCgroupParamUint(g.Path("memory"), file)
	return int64(min(usage, math.MaxInt64)), err
}

// limits returns the kernel's current limits: memory and the cpu quota only.
func (g group) limits() (cgroups.Resources, error) {
	var r cgroups.Resources
	memory, quota := "memory.limit_in_bytes", g.quotaV1
	if g.v2 {
		memory, quota = "memory.max", g.quotaV2
	}
	limit, err := fscommon.GetCgroupParamUint(g.Path("memory"), memory)
	if err != nil {
		return r, err
	}
	r.Memory = readLimit(limit)
	r.CpuQuota, r.CpuPeriod, err = quota()
	return r, err
}

func (g group) quotaV1() (quota int64, period uint64, err error) {
	if quota, err = fscommon.GetCgroupParamInt(g.Path("cpu"), "cpu.cfs_quota_us"); err != nil {
		return 0, 0, err
	}
	period, err = fscommon.GetCgroupParamUint(g.Path("cpu"), "cpu.cfs_period_us")
	return quota, period, err
}

func (g group) quotaV2() (quota int64, period uint64, err error) {
	text, err := fscommon.GetCgroupParamString(g.Path("cpu"), "cpu.max")
	if err != nil {
		return 0, 0, err
	}
	return parseCPUMax(text)
}

// parseCPUMax parses v2's "max 100000" or "50000 100000".
func parseCPUMax(text string) (quota int64, period uint64, err error) {
	first, second, _ := strings.Cut(text, " ")
	if period, err = strconv.ParseUint(second, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("cpu.max %q: %w", text, err)
	}
	if first == "max" {
		return unlimited, period, nil
	}
	if quota, err = strconv.ParseInt(first, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("cpu.max %q: %w", text, err)
	}
	return quota, period, nil
}

// fence prevents forks in the cgroup while its processes are killed, and thaws it: a frozen process of v1 doesn't
// exit.
func (g group) fence() {
	// Both are best effort: surviving processes are found and killed again.
	_ = cgroups.WriteFile(g.Path("pids"), "pids.max", "0")
	if g.v2 {
		return
	}
	_ = filepath.WalkDir(g.Path("freezer"), func(dir string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = cgroups.WriteFile(dir, "freezer.state", string(cgroups.Thawed))
		}
		return nil
	})
}
