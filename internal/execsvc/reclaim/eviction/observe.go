package eviction

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
)

// reader observes the signals of the machine.
type reader struct {
	// root is the directory of the machine's /proc and /sys.
	root string
	// dir is on nodefs, and previous has older pods, or is empty. podsCgroup is the cgroup of all pods, or empty.
	dir, previous, podsCgroup string
	// disks returns directories on imagefs and containerfs; nil means that they are nodefs. dirs caches its result, until
	// moved is set.
	disks func(context.Context) (Disks, error)
	dirs  Disks
	moved bool
	// stat returns the size of a path's file system, and devices has the last device of each path. A file system that
	// doesn't answer is waited for through waits.
	stat    func(path string) (fileSystem, error)
	devices map[string]uint64
	waits   *nodefs.Waits
}

func bounded(n uint64) int64 { return int64(min(n, math.MaxInt64)) } //nolint:gosec // It is bounded.

// observe reads all signals. A signal that can't be read is absent, and its reason is in the error. disks are the file
// systems.
func (r *reader) observe(ctx context.Context) (seen observations, disks layout, err error) {
	seen = observations{}
	var errs []error
	try := func(read func() error) {
		if err := read(); err != nil {
			errs = append(errs, err)
		}
	}
	try(func() error { return r.memory(seen) })
	try(func() error { return r.allocatableMemory(seen) })
	try(func() error { return r.processes(seen) })
	try(func() (err error) { disks, err = r.fileSystems(ctx, seen); return err })
	return seen, disks, errors.Join(errs...)
}

func (r *reader) path(name string) string { return filepath.Join("/", r.root, name) } //nolint:gocritic // An empty root is "/".

// memory records the free memory plus the inactive file cache.
func (r *reader) memory(seen observations) error {
	info, err := r.fields("proc/meminfo")
	if err != nil {
		return err
	}
	total, err1 := info.of("MemTotal:")
	free, err2 := info.of("MemFree:")
	inactive, err3 := info.of("Inactive(file):")
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("%s: %w", r.path("proc/meminfo"), err)
	}
	if total == 0 {
		return fmt.Errorf("%s has a MemTotal of 0", r.path("proc/meminfo"))
	}
	seen[MemoryAvailable] = inBytes(min(free+inactive, total)<<10, total<<10)
	return nil
}

// cgroupV1 is the hierarchy of cgroup v1's memory controller, and usageV1 a cgroup's usage.
const cgroupV1, usageV1 = "sys/fs/cgroup/memory", "memory.usage_in_bytes"

// allocatableMemory records the memory left within the limit of all pods' cgroup.
func (r *reader) allocatableMemory(seen observations) error {
	if r.podsCgroup == "" {
		return nil
	}
	dir, limit, use, inactive := cgroupV1, "memory.limit_in_bytes", usageV1, "total_inactive_file"
	if _, err := os.Stat(r.path("sys/fs/cgroup/cgroup.controllers")); err == nil {
		dir, limit, use, inactive = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
	}
	dir = filepath.Join(dir, r.podsCgroup)
	bound, err := r.text(filepath.Join(dir, limit))
	if err != nil {
		return err
	}
	if bound == "max" {
		return nil
	}
	most, err := strconv.ParseInt(bound, 10, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", r.path(filepath.Join(dir, limit)), err)
	case most <= 0 || most >= unlimited:
		// No limit in which pods could run, or the value that cgroup v1 has for no limit.
		return nil
	}
	used, err := r.number(filepath.Join(dir, use))
	if err != nil {
		return err
	}
	stat, err := r.fields(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return err
	}
	cache, err := stat.of(inactive)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path(filepath.Join(dir, "memory.stat")), err)
	}
	workingSet := max(used-cache, 0)
	seen[AllocatableMemoryAvailable] = inBytes(max(most-workingSet, 0), most)
	return nil
}

// unlimited is about the number of bytes at which cgroup v1 reports no limit.
const unlimited = 1 << 62

// processes records how many more processes and threads can start.
func (r *reader) processes(seen observations) error {
	most := int64(math.MaxInt64)
	for _, name := range []string{"proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"} {
		n, err := r.number(name)
		if err != nil {
			return err
		}
		if n <= 0 {
			return fmt.Errorf("%s is %d", r.path(name), n)
		}
		most = min(most, n)
	}
	load, err := r.text("proc/loadavg")
	if err != nil {
		return err
	}
	// As in "1.36 3.49 4.53 2/3518 3715089": there are 3518 threads.
	fields := strings.Fields(load)
	if len(fields) < 4 {
		return fmt.Errorf("%s is %q", r.path("proc/loadavg"), load)
	}
	_, count, _ := strings.Cut(fields[3], "/")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is %q: %w", r.path("proc/loadavg"), load, err)
	}
	seen[PIDAvailable] = observation{*resource.NewQuantity(most-n, resource.DecimalSI), *resource.NewQuantity(most, resource.DecimalSI)}
	return nil
}

func inBytes(available, capacity int64) observation {
	return observation{*resource.NewQuantity(available, resource.BinarySI), *resource.NewQuantity(capacity, resource.BinarySI)}
}

func (r *reader) text(name string) (string, error) {
	data, err := os.ReadFile(r.path(name))
	return strings.TrimSpace(string(data)), err
}

func (r *reader) number(name string) (int64, error) {
	text, err := r.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.path(name), err)
	}
	return n, nil
}

// numbers are the values of a file, by name.
type numbers map[string]int64

// of returns a value. A missing value is an error and not 0, which would cause an eviction.
func (n numbers) of(name string) (int64, error) {
	value, there := n[name]
	if !there {
		return 0, fmt.Errorf("it has no value for %s", name)
	}
	return value, nil
}

// fields reads a file that has a name and a number on each line.
func (r *reader) fields(name string) (numbers, error) {
	text, err := r.text(name)
	if err != nil {
		return nil, err
	}
	out := numbers{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(words[1], 10, 64); err == nil && n >= 0 {
			out[words[0]] = n
		}
	}
	return out, nil
}
