package kernel

import (
	"bytes"
)

func (r *Reader) groupV2(path string, u *Usage, brief bool) error {
	dir := r.dir("", path)
	if err := r.read(dir+"/cpu.stat", func(data []byte) { u.CPU.parseV2(data) }); err != nil {
		return err
	}
	m := &u.Memory
	if err := r.read(dir+"/memory.stat", func(data []byte) { m.parseV2(data) }); err != nil {
		return err
	}
	m.Usage, m.Limit = r.number(dir+"/memory.current"), r.number(dir+"/memory.max")
	if m.Swap = r.number(dir + "/memory.swap.current"); m.Swap != nil {
		m.SwapLimit = r.number(dir + "/memory.swap.max")
	}
	if brief {
		return nil
	}
	m.Max, m.Reservation = r.number(dir+"/memory.peak"), r.number(dir+"/memory.low")
	_ = r.read(dir+"/memory.events.local", func(data []byte) { m.OOMKills = oomEvents(data) })
	_ = r.read(dir+"/memory.events", func(data []byte) {
		pairs(data, func(name []byte, n uint64) {
			switch string(name) {
			case "max":
				m.Failures, m.MaxEvents = new(n), new(n)
			case "high":
				m.HighEvents = new(n)
			}
		})
		if m.OOMKills == nil {
			// Before Linux 5.2 there is no count without the cgroups below.
			m.OOMKills = oomEvents(data)
		}
	})
	_ = r.read(dir+"/cpu.max", func(data []byte) { u.CPU.parseMax(data) })
	if weight := r.number(dir + "/cpu.weight"); weight != nil {
		u.CPU.Shares = new(shares(*weight))
	}
	u.Threads, u.ThreadsMax = r.number(dir+"/pids.current"), r.number(dir+"/pids.max")
	u.CPU.Pressure, m.Pressure, u.IO = r.pressure(dir+"/cpu.pressure"), r.pressure(dir+"/memory.pressure"), r.pressure(dir+"/io.pressure")
	_ = r.read(dir+"/io.stat", func(data []byte) { u.Disks = parseIOStat(data) })
	r.processes(dir, u)
	return nil
}

// oomEvents returns the number of OOMs by memory.events. All processes of a group are killed in one OOM, as cAdvisor
// counts.
func oomEvents(data []byte) *uint64 {
	var kills, groups *uint64
	pairs(data, func(name []byte, n uint64) {
		switch string(name) {
		case "oom_kill":
			kills = new(n)
		case "oom_group_kill":
			groups = new(n)
		}
	})
	if groups != nil && *groups > 0 {
		return groups
	}
	return kills
}

func (c *CPU) parseV2(data []byte) {
	pairs(data, func(name []byte, n uint64) {
		switch string(name) {
		case "usage_usec":
			c.Total = new(n * microsecond)
		case "user_usec":
			c.User = new(n * microsecond)
		case "system_usec":
			c.System = new(n * microsecond)
		case "nr_periods":
			c.Periods = new(n)
		case "nr_throttled":
			c.ThrottledPeriods = new(n)
		case "throttled_usec":
			c.Throttled = new(n * microsecond)
		case "nr_bursts":
			c.Bursts = new(n)
		case "burst_usec":
			c.Burst = new(n * microsecond)
		}
	})
}

// parseMax parses "max 100000" or "50000 100000".
func (c *CPU) parseMax(data []byte) {
	quota, period, _ := bytes.Cut(bytes.TrimSpace(data), space)
	c.Quota, c.Period = parseNumber(quota), parseNumber(period)
}

func (m *Memory) parseV2(data []byte) {
	pairs(data, func(name []byte, n uint64) {
		switch string(name) {
		case "anon":
			m.RSS = new(n)
		case "file":
			m.Cache = new(n)
		case "file_mapped":
			m.Mapped = new(n)
		case "kernel":
			m.Kernel = new(n)
		case "active_file":
			m.ActiveFile = new(n)
		case "inactive_file":
			m.InactiveFile = new(n)
		case "pgfault":
			m.Faults = new(n)
		case "pgmajfault":
			m.MajorFaults = new(n)
		case "file_dirty":
			m.Dirty = new(n)
		case "file_writeback":
			m.Writeback = new(n)
		case "pgscan":
			m.Scanned = new(n)
		case "pgsteal":
			m.Reclaimed = new(n)
		case "workingset_refault_file":
			m.RefaultsFile = new(n)
		case "workingset_refault_anon":
			m.RefaultsAnon = new(n)
		}
	})
}

// shares converts a weight of version 2 to version 1, on the line from (1, 2) to (10000, 262144), as cAdvisor does.
func shares(weight uint64) uint64 {
	weight = min(max(weight, 1), 10000)
	return 2 + (weight-1)*262142/9999
}
