package kernel

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Machine is the machine's usage and capacity.
type Machine struct {
	Usage
	// Total is all memory, SwapTotal all swap, in bytes.
	Total, SwapTotal uint64
	// Boot is the time of the last boot.
	Boot time.Time
	// MaxTasks is the limit of processes and threads, Tasks their number; nil if unknown.
	MaxTasks, Tasks *uint64
	// Network are its own interfaces, without those of pods. Nil in a brief reading.
	Network []Interface
}

// Machine reads the machine's usage. Brief reads only CPU, memory and swap.
func (r *Reader) Machine(now time.Time, brief bool) (*Machine, error) {
	m := &Machine{Usage: Usage{At: now}}
	if err := r.read(r.path("proc/stat"), func(data []byte) { m.parseStat(data) }); err != nil {
		return nil, err
	}
	if err := r.read(r.path("proc/meminfo"), func(data []byte) { m.parseMeminfo(data) }); err != nil {
		return nil, err
	}
	if m.Total == 0 {
		return nil, fmt.Errorf("%s has no MemTotal", r.path("proc/meminfo"))
	}
	if brief {
		return m, nil
	}
	_ = r.read(r.path("proc/vmstat"), func(data []byte) {
		pairs(data, func(name []byte, n uint64) {
			switch string(name) {
			case "pgfault":
				m.Memory.Faults = new(n)
			case "pgmajfault":
				m.Memory.MajorFaults = new(n)
			case "oom_kill":
				m.Memory.OOMKills = new(n)
			}
		})
	})
	m.CPU.Pressure, m.Memory.Pressure = r.pressure(r.path("proc/pressure/cpu")), r.pressure(r.path("proc/pressure/memory"))
	m.IO = r.pressure(r.path("proc/pressure/io"))
	most, threads := r.number(r.path("proc/sys/kernel/pid_max")), r.number(r.path("proc/sys/kernel/threads-max"))
	if most != nil && threads != nil {
		m.MaxTasks = new(min(*most, *threads))
	}
	_ = r.read(r.path("proc/loadavg"), func(data []byte) { m.Tasks = parseTasks(data) })
	m.Threads = m.Tasks
	// Process 1 has the machine's network, even if this process has another one.
	network, err := r.Network(1)
	if err == nil {
		m.Network = slices.DeleteFunc(network, func(i Interface) bool { return !physical(i) })
	}
	_ = r.read(r.path("proc/diskstats"), func(data []byte) { m.Disks = parseDiskstats(data) })
	return m, nil
}

// parseStat reads the CPU time, without time that the hypervisor has stolen; user time contains that of guests.
func (m *Machine) parseStat(data []byte) {
	for line := range bytes.Lines(data) {
		words := bytes.Fields(line)
		switch {
		case len(words) >= 8 && string(words[0]) == "cpu":
			n := func(i int) uint64 { n, _ := digits(words[i]); return n * tick }
			user, system := n(1)+n(2), n(3)+n(6)+n(7)
			m.CPU.User, m.CPU.System, m.CPU.Total = new(user), new(system), new(user+system)
		case len(words) == 2 && string(words[0]) == "btime":
			if n, ok := digits(words[1]); ok && n < math.MaxInt64 {
				m.Boot = time.Unix(int64(n), 0)
			}
		}
	}
}

// parseMeminfo counts memory as used that isn't free, as cgroup version 2 does for the whole machine.
func (m *Machine) parseMeminfo(data []byte) {
	has := map[string]uint64{}
	pairs(data, func(name []byte, kb uint64) { has[string(bytes.TrimSuffix(name, []byte{':'}))] = kb << 10 })
	m.Total, m.SwapTotal = has["MemTotal"], has["SwapTotal"]
	usage := less(m.Total, has["MemFree"])
	m.Memory.Usage, m.Memory.WorkingSet = new(usage), new(less(usage, has["Inactive(file)"]))
	m.Memory.RSS, m.Memory.Cache, m.Memory.Mapped = new(has["AnonPages"]), new(has["Cached"]+has["Buffers"]), new(has["Mapped"])
	m.Memory.ActiveFile, m.Memory.InactiveFile = new(has["Active(file)"]), new(has["Inactive(file)"])
	m.Memory.Swap = new(less(m.SwapTotal, has["SwapFree"]))
	m.Memory.Limit, m.Memory.SwapLimit = new(m.Total), new(m.SwapTotal)
}

// parseTasks returns the 3518 of 1.36 3.49 4.53 2/3518 3715089.
func parseTasks(data []byte) *uint64 {
	words := bytes.Fields(data)
	if len(words) < 4 {
		return nil
	}
	_, all, _ := bytes.Cut(words[3], []byte{'/'})
	return parseNumber(all)
}

// Devices returns the paths of disks by number: /dev/vda for 254:0.
func (r *Reader) Devices() map[string]string {
	out := map[string]string{}
	_ = r.read(r.path("proc/partitions"), func(data []byte) {
		for line := range strings.Lines(string(data)) {
			if words := strings.Fields(line); len(words) == 4 && words[0] != "major" {
				out[words[0]+":"+words[1]] = "/dev/" + words[3]
			}
		}
	})
	return out
}
