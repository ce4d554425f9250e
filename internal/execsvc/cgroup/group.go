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

// driver is who makes cgroups: podexecd itself, or systemd on its behalf.
type driver struct{ systemd, v2 bool }

// path is the name as the driver's runtime spells it.
func (d driver) path(n name) string {
	if d.systemd {
		return n.systemd()
	}
	return n.cgroupfs()
}

// config is what the library has to know to find the cgroup.
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

// group is one cgroup, which may or may not be there: a directory, or on v1 one in each hierarchy.
type group struct {
	driver
	cgroups.Manager
}

func (d driver) open(n name) (group, error) {
	m, err := manager.New(d.config(n))
	return group{driver: d, Manager: m}, err
}

// devices is the hierarchy of v1 that the runtime makes directories in, and podexecd none.
const devices = "devices"

// exists tells whether nothing of the cgroup is missing.
func (g group) exists() bool {
	for controller, dir := range g.GetPaths() {
		if controller != devices && !isDir(dir) {
			return false
		}
	}
	return true
}

// dirs are the cgroup's directories that are there.
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

// create makes the cgroup and what it is in, as far as they aren't there.
func (g group) create() error { return g.Apply(-1) }

// set changes what the resources say something of. Too low a limit of memory is ErrBusy, and everything else is set.
func (g group) set(r cgroups.Resources) error {
	have, err := g.limits()
	if err != nil {
		return err
	}
	// v1 refuses such a limit by itself. v2 would kill.
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

// setCopy is Set for resources that stay as they are: the library changes what it is given.
func (g group) setCopy(r cgroups.Resources) error { return g.Set(&r) }

// usage is the memory that is in use now, in bytes, with what could be reclaimed.
func (g group) usage() (int64, error) {
	file := "memory.usage_in_bytes"
	if g.v2 {
		file = "memory.current"
	}
	usage, err := fscommon.GetCgroupParamUint(g.Path("memory"), file)
	return int64(min(usage, math.MaxInt64)), err
}

// limits are those that the kernel holds the cgroup to now: memory and the cpu's quota, no more.
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

// parseCPUMax reads v2's "max 100000" or "50000 100000".
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

// fence keeps new processes from being started in the cgroup, so that none is born while the others are killed, and thaws it: a
// frozen process of v1 doesn't die.
func (g group) fence() {
	// Each is of help if it is there, and none is needed: what lives on is seen, and killed again.
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
