package kernel

// nearlyAll is about the number of bytes from which there is no limit: the kernel rounds.
const nearlyAll = 1 << 62

// tick is the unit of /proc and cpuacct.stat in nanoseconds: USER_HZ is 100 on all platforms of pods.
const tick = 10_000_000

func (r *Reader) groupV1(path string, u *Usage, brief bool) error {
	c, m := &u.CPU, &u.Memory
	memory := r.dir("memory", path)
	if err := r.read(memory+"/memory.stat", func(data []byte) { m.parseV1(data) }); err != nil {
		return err
	}
	m.Usage, m.Limit = r.number(memory+"/memory.usage_in_bytes"), r.limit(memory+"/memory.limit_in_bytes")
	if both := r.limit(memory + "/memory.memsw.limit_in_bytes"); both != nil && m.Limit != nil {
		// The limit is for both together.
		if m.SwapLimit = both; *both != Unlimited {
			m.SwapLimit = new(less(*both, *m.Limit))
		}
	}
	account := r.dir("cpuacct", path)
	if c.Total = r.number(account + "/cpuacct.usage"); brief {
		return nil
	}
	_ = r.read(account+"/cpuacct.stat", func(data []byte) {
		pairs(data, func(name []byte, n uint64) {
			switch string(name) {
			case "user":
				c.User = new(n * tick)
			case "system":
				c.System = new(n * tick)
			}
		})
	})
	cpu := r.dir("cpu", path)
	_ = r.read(cpu+"/cpu.stat", func(data []byte) {
		pairs(data, func(name []byte, n uint64) {
			switch string(name) {
			case "nr_periods":
				c.Periods = new(n)
			case "nr_throttled":
				c.ThrottledPeriods = new(n)
			case "throttled_time":
				c.Throttled = new(n)
			case "nr_bursts":
				c.Bursts = new(n)
			case "burst_time":
				c.Burst = new(n)
			}
		})
	})
	c.Shares, c.Period = r.number(cpu+"/cpu.shares"), r.number(cpu+"/cpu.cfs_period_us")
	if c.Quota = r.number(cpu + "/cpu.cfs_quota_us"); c.Quota == nil && c.Period != nil {
		// The value is -1.
		c.Quota = new(uint64(Unlimited))
	}
	m.Max, m.Failures = r.number(memory+"/memory.max_usage_in_bytes"), r.number(memory+"/memory.failcnt")
	m.Kernel, m.Reservation = r.number(memory+"/memory.kmem.usage_in_bytes"), r.limit(memory+"/memory.soft_limit_in_bytes")
	_ = r.read(memory+"/memory.oom_control", func(data []byte) {
		pairs(data, func(name []byte, n uint64) {
			if string(name) == "oom_kill" {
				m.OOMKills = new(n)
			}
		})
	})
	pids := r.dir("pids", path)
	u.Threads, u.ThreadsMax = r.number(pids+"/pids.current"), r.number(pids+"/pids.max")
	blkio := r.dir("blkio", path)
	_ = r.read(blkio+"/blkio.throttle.io_service_bytes_recursive", func(data []byte) {
		parseThrottle(data, &u.Disks, addBytes)
	})
	_ = r.read(blkio+"/blkio.throttle.io_serviced_recursive", func(data []byte) {
		parseThrottle(data, &u.Disks, addRequests)
	})
	r.processes(memory, u)
	return nil
}

// limit returns Unlimited if there is none.
func (r *Reader) limit(name string) *uint64 {
	n := r.number(name)
	if n != nil && *n >= nearlyAll {
		*n = Unlimited
	}
	return n
}

// parseV1 reads the values that include the cgroups below, as the rest of Memory does.
func (m *Memory) parseV1(data []byte) {
	pairs(data, func(name []byte, n uint64) {
		switch string(name) {
		case "total_rss":
			m.RSS = new(n)
		case "total_cache":
			m.Cache = new(n)
		case "total_mapped_file":
			m.Mapped = new(n)
		case "total_active_file":
			m.ActiveFile = new(n)
		case "total_inactive_file":
			m.InactiveFile = new(n)
		case "total_swap":
			m.Swap = new(n)
		case "total_pgfault":
			m.Faults = new(n)
		case "total_pgmajfault":
			m.MajorFaults = new(n)
		case "total_dirty":
			m.Dirty = new(n)
		case "total_writeback":
			m.Writeback = new(n)
		}
	})
}
