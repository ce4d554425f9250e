package nodeinfo

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"
)

// machine reads files of the kernel and the system beneath root.
type machine struct{ root string }

func (m machine) path(name string) string { return filepath.Clean("/" + m.root + "/" + name) }

// text returns a file's content without surrounding spaces, or "" if it can't be read.
func (m machine) text(name string) string {
	data, err := os.ReadFile(m.path(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// first returns the first text that isn't empty.
func (m machine) first(names ...string) string {
	for _, name := range names {
		if text := m.text(name); text != "" {
			return text
		}
	}
	return ""
}

// capacity returns CPU, memory and huge pages.
func (m machine) capacity() (v1.ResourceList, error) {
	cpus, err := m.online()
	if err != nil {
		return nil, err
	}
	memory, err := m.memory("MemTotal")
	if err != nil {
		return nil, err
	}
	capacity := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(cpus.Size()), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
	// The only error is that of a bad pattern.
	sizes, _ := filepath.Glob(m.path("sys/kernel/mm/hugepages/hugepages-*kB"))
	for _, dir := range sizes {
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("size of huge pages: %w", err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "nr_hugepages"))
		if err != nil {
			return nil, fmt.Errorf("number of huge pages: %w", err)
		}
		pages, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("number of huge pages of %d KiB: %w", kb, err)
		}
		name := v1.ResourceHugePagesPrefix + resource.NewQuantity(kb<<10, resource.BinarySI).String()
		capacity[v1.ResourceName(name)] = *resource.NewQuantity(pages*kb<<10, resource.BinarySI)
	}
	return capacity, nil
}

// online returns the processors that the kernel uses. Not runtime.NumCPU: this process may be limited to some of them.
func (m machine) online() (cpuset.CPUSet, error) {
	cpus, err := cpuset.Parse(m.text("sys/devices/system/cpu/online"))
	if err != nil {
		return cpus, fmt.Errorf("processors: %w", err)
	}
	if cpus.IsEmpty() {
		return cpus, fmt.Errorf("processors: %s names none", m.path("sys/devices/system/cpu/online"))
	}
	return cpus, nil
}

// memory returns one of the amounts of /proc/meminfo, in bytes.
func (m machine) memory(name string) (int64, error) {
	data, err := os.ReadFile(m.path("proc/meminfo"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != name+":" {
			continue
		}
		kb, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return kb << 10, nil
	}
	return 0, fmt.Errorf("%s has no %s", m.path("proc/meminfo"), name)
}

// processes returns how many processes and threads the kernel allows, or 0 if that isn't known.
func (m machine) processes() int64 {
	var least int64
	for _, name := range []string{"proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"} {
		if n, err := strconv.ParseInt(m.text(name), 10, 64); err == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

func (m machine) system() v1.NodeSystemInfo {
	info := v1.NodeSystemInfo{
		MachineID:       m.first("etc/machine-id", "var/lib/dbus/machine-id"),
		SystemUUID:      m.first("sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid", "etc/machine-id"),
		BootID:          m.text("proc/sys/kernel/random/boot_id"),
		KernelVersion:   m.text("proc/sys/kernel/osrelease"),
		OSImage:         osImage(m.first("etc/os-release", "usr/lib/os-release")),
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
	}
	info.RunningInUserNamespace = ptr.To(m.userNamespace())
	// A kernel without swap has no such line.
	if swap, err := m.memory("SwapTotal"); err == nil && swap > 0 {
		info.Swap = &v1.NodeSwapStatus{Capacity: &swap}
	}
	return info
}

// osImage returns the system's human-readable name.
func osImage(release string) string {
	for line := range strings.Lines(release) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return "Linux"
}

// cgroupV2 is false in hybrid mode, where version 2 has no controllers.
func (m machine) cgroupV2() bool {
	_, err := os.Stat(m.path("sys/fs/cgroup/cgroup.controllers"))
	return err == nil
}

// userNamespace reports whether this process has another user namespace than the machine's first one, which maps all
// IDs to themselves. A kernel without user namespaces has no such file.
func (m machine) userNamespace() bool {
	ids, err := os.ReadFile(m.path("proc/self/uid_map"))
	return err == nil && !slices.Equal(strings.Fields(string(ids)), []string{"0", "0", "4294967295"})
}

// noCPUQuota is always false with version 2.
func (m machine) noCPUQuota() bool {
	if m.cgroupV2() {
		return false
	}
	for _, file := range []string{"cpu.cfs_period_us", "cpu.cfs_quota_us"} {
		// The only error is that of a bad pattern.
		if found, _ := filepath.Glob(m.path("sys/fs/cgroup/*/" + file)); len(found) == 0 {
			return true
		}
	}
	return false
}

// swapAccounting reads any cgroup of version 2 but the root, which has no limits.
func (m machine) swapAccounting() bool {
	for _, pattern := range []string{"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "sys/fs/cgroup/*/memory.swap.max"} {
		// The only error is that of a bad pattern.
		if found, _ := filepath.Glob(m.path(pattern)); len(found) > 0 {
			return true
		}
	}
	return false
}

func (m machine) appArmor() bool {
	_, err := os.Stat(m.path("sys/kernel/security/apparmor"))
	return err == nil && strings.HasPrefix(m.text("sys/module/apparmor/parameters/enabled"), "Y")
}

// fileSystemSize returns the size of the file system of the directory.
func fileSystemSize(dir string) (resource.Quantity, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return resource.Quantity{}, err
	}
	size := fs.Blocks * uint64(fs.Frsize)                                                  //nolint:gosec // It is a size, and not negative.
	return *resource.NewQuantity(int64(min(size, math.MaxInt64)), resource.DecimalSI), nil //nolint:gosec // It is bounded.
}
