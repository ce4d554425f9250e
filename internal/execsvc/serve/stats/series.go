package stats

import (
	"time"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
)

// containerSeries are the series of a row, with cAdvisor's names, except for those of disks and of processes.
var containerSeries = []series{
	timed("container_cpu_usage_seconds_total", "Time that processors were used, in seconds.", count, func(x *row, add adder) {
		if x.Usage != nil && x.CPU.Total != nil {
			add(seconds(*x.CPU.Total), "cpu", "total")
		}
	}),
	inSeconds("container_cpu_user_seconds_total", "Time of processors that the programs themselves used, in seconds.",
		func(u *kernel.Usage) *uint64 { return u.CPU.User }),
	inSeconds("container_cpu_system_seconds_total", "Time of processors that the kernel used on their behalf, in seconds.",
		func(u *kernel.Usage) *uint64 { return u.CPU.System }),
	quota("container_cpu_cfs_periods_total", "Periods in which the quota of processors counted.", 1,
		func(u *kernel.Usage) *uint64 { return u.CPU.Periods }),
	quota("container_cpu_cfs_throttled_periods_total", "Periods in which the quota of processors was used up.", 1,
		func(u *kernel.Usage) *uint64 { return u.CPU.ThrottledPeriods }),
	quota("container_cpu_cfs_throttled_seconds_total", "Time lost to the quota of processors, in seconds.", float64(time.Second),
		func(u *kernel.Usage) *uint64 { return u.CPU.Throttled }),
	quota("container_cpu_cfs_burst_periods_total", "Periods that used more than the quota, saved from earlier ones.", 1,
		func(u *kernel.Usage) *uint64 { return u.CPU.Bursts }),
	quota("container_cpu_cfs_burst_seconds_total", "Time used above the quota, in seconds.", float64(time.Second),
		func(u *kernel.Usage) *uint64 { return u.CPU.Burst }),

	measure("container_memory_usage_bytes", "Memory in use, with what could be reclaimed.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Usage }),
	measure("container_memory_working_set_bytes", "Memory in use, without inactive file cache.",
		func(u *kernel.Usage) *uint64 { return u.Memory.WorkingSet }),
	measure("container_memory_rss", "Memory that holds no files, in bytes.", func(u *kernel.Usage) *uint64 { return u.Memory.RSS }),
	measure("container_memory_cache", "Memory that holds files, in bytes.", func(u *kernel.Usage) *uint64 { return u.Memory.Cache }),
	measure("container_memory_mapped_file", "Memory that holds mapped files, in bytes.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Mapped }),
	measure("container_memory_kernel_usage", "Memory that the kernel uses on their behalf, in bytes.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Kernel }),
	measure("container_memory_swap", "Swap in use, in bytes.", func(u *kernel.Usage) *uint64 { return u.Memory.Swap }),
	measure("container_memory_max_usage_bytes", "The most memory that has been in use.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Max }),
	measure("container_memory_total_active_file_bytes", "Memory that holds files which were read lately.",
		func(u *kernel.Usage) *uint64 { return u.Memory.ActiveFile }),
	measure("container_memory_total_inactive_file_bytes", "Inactive file cache.",
		func(u *kernel.Usage) *uint64 { return u.Memory.InactiveFile }),
	counted("container_memory_failcnt", "How often the limit of memory was hit.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Failures }),
	timed("container_memory_failures_total", "Page faults.", count, func(x *row, add adder) {
		if x.Usage == nil {
			return
		}
		// cAdvisor has one value for both scopes, and dashboards use either.
		for _, scope := range []string{"container", "hierarchy"} {
			if n := x.Memory.Faults; n != nil {
				add(float64(*n), "failure_type", "pgfault", "scope", scope)
			}
			if n := x.Memory.MajorFaults; n != nil {
				add(float64(*n), "failure_type", "pgmajfault", "scope", scope)
			}
		}
	}),
	measure("container_memory_file_dirty_bytes", "Memory of changed files that isn't being written yet.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Dirty }),
	measure("container_memory_file_writeback_bytes", "Memory of changed files that is being written.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Writeback }),
	counted("container_memory_events_high_total", "How often memory.high was reached.",
		func(u *kernel.Usage) *uint64 { return u.Memory.HighEvents }),
	counted("container_memory_events_max_total", "How often memory.max was reached.",
		func(u *kernel.Usage) *uint64 { return u.Memory.MaxEvents }),
	counted("container_memory_pgscan_total", "Pages that the kernel looked at in order to reclaim them.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Scanned }),
	counted("container_memory_pgsteal_total", "Pages that the kernel reclaimed.",
		func(u *kernel.Usage) *uint64 { return u.Memory.Reclaimed }),
	counted("container_memory_workingset_refault_file_total", "Pages of files that were read again after they were reclaimed.",
		func(u *kernel.Usage) *uint64 { return u.Memory.RefaultsFile }),
	counted("container_memory_workingset_refault_anon_total", "Pages that were swapped in again after they were reclaimed.",
		func(u *kernel.Usage) *uint64 { return u.Memory.RefaultsAnon }),
	counted("container_oom_events_total", "Processes that were killed as memory ran out.",
		func(u *kernel.Usage) *uint64 { return u.Memory.OOMKills }),

	traffic("container_network_receive_bytes_total", "Bytes received.",
		func(i *kernel.Interface) *uint64 { return &i.Receive.Bytes }),
	traffic("container_network_receive_packets_total", "Packets received.",
		func(i *kernel.Interface) *uint64 { return i.Receive.Packets }),
	traffic("container_network_receive_packets_dropped_total", "Packets dropped while receiving.",
		func(i *kernel.Interface) *uint64 { return i.Receive.Dropped }),
	traffic("container_network_receive_errors_total", "Errors while receiving.",
		func(i *kernel.Interface) *uint64 { return &i.Receive.Errors }),
	traffic("container_network_transmit_bytes_total", "Bytes sent.", func(i *kernel.Interface) *uint64 { return &i.Transmit.Bytes }),
	traffic("container_network_transmit_packets_total", "Packets sent.",
		func(i *kernel.Interface) *uint64 { return i.Transmit.Packets }),
	traffic("container_network_transmit_packets_dropped_total", "Packets dropped while sending.",
		func(i *kernel.Interface) *uint64 { return i.Transmit.Dropped }),
	traffic("container_network_transmit_errors_total", "Errors while sending.",
		func(i *kernel.Interface) *uint64 { return &i.Transmit.Errors }),

	measure("container_processes", "Processes.", func(u *kernel.Usage) *uint64 { return u.Processes }),
	measure("container_threads", "Threads.", func(u *kernel.Usage) *uint64 { return u.Threads }),
	measure("container_threads_max", "Threads that there may be; 0: any number.",
		func(u *kernel.Usage) *uint64 { return bounded(u.ThreadsMax) }),

	stall("container_pressure_cpu_waiting_seconds_total", "Time that some waited for processors, in seconds.",
		func(u *kernel.Usage) *kernel.Pressure { return u.CPU.Pressure }, some),
	stall("container_pressure_cpu_stalled_seconds_total", "Time that all waited for processors, in seconds.",
		func(u *kernel.Usage) *kernel.Pressure { return u.CPU.Pressure }, full),
	stall("container_pressure_memory_waiting_seconds_total", "Time that some waited for memory, in seconds.",
		func(u *kernel.Usage) *kernel.Pressure { return u.Memory.Pressure }, some),
	stall("container_pressure_memory_stalled_seconds_total", "Time that all waited for memory, in seconds.",
		func(u *kernel.Usage) *kernel.Pressure { return u.Memory.Pressure }, full),
	stall("container_pressure_io_waiting_seconds_total", "Time that some waited for disks, in seconds.",
		func(u *kernel.Usage) *kernel.Pressure { return u.IO }, some),
	stall("container_pressure_io_stalled_seconds_total", "Time that all waited for disks, in seconds.",
		func(u *kernel.Usage) *kernel.Pressure { return u.IO }, full),

	timed("container_last_seen", "When it was last seen, in seconds since 1970.", gauge, func(x *row, add adder) {
		if x.Usage != nil {
			add(float64(x.At.Unix()))
		}
	}),
	creation("container_start_time_seconds", "When it was made, in seconds since 1970."),
	creation("container_creation_time_seconds", "When it was made, in seconds since 1970."),
	spec("container_spec_cpu_shares", "Share of the processors.", func(u *kernel.Usage) *uint64 { return u.CPU.Shares }),
	spec("container_spec_cpu_period", "Period of the quota of processors, in microseconds.",
		func(u *kernel.Usage) *uint64 { return u.CPU.Period }),
	spec("container_spec_cpu_quota", "Quota of processors, in microseconds a period.", func(u *kernel.Usage) *uint64 {
		if !hasQuota(u) {
			return nil
		}
		return u.CPU.Quota
	}),
	spec("container_spec_memory_limit_bytes", "Limit of memory; 0: there is none.",
		func(u *kernel.Usage) *uint64 { return bounded(u.Memory.Limit) }),
	spec("container_spec_memory_swap_limit_bytes", "Limit of swap; 0: there is none.",
		func(u *kernel.Usage) *uint64 { return bounded(u.Memory.SwapLimit) }),
	spec("container_spec_memory_reservation_limit_bytes", "Memory that is kept for it; 0: none is.",
		func(u *kernel.Usage) *uint64 { return bounded(u.Memory.Reservation) }),
}

// adder takes a value, and names and values of additional labels.
type adder = func(v float64, more ...string)

func timed(name, help string, k kind, values func(*row, adder)) series {
	return series{name: name, help: help, kind: k, values: values}
}

// creation returns a series of the time of creation. A container of CRI never starts twice, so that this is its start too.
func creation(name, help string) series {
	return series{name: name, help: help, kind: gauge, untimed: true, values: func(x *row, add adder) {
		if x.created.Unix() > 0 {
			add(float64(x.created.Unix()))
		}
	}}
}

// number returns a series of a value that may be unknown, in some unit.
func number(name, help string, k kind, unit float64, of func(*kernel.Usage) *uint64) series {
	return timed(name, help, k, func(x *row, add adder) {
		if x.Usage == nil {
			return
		}
		if n := of(x.Usage); n != nil {
			add(float64(*n) / unit)
		}
	})
}

func inSeconds(name, help string, of func(*kernel.Usage) *uint64) series {
	return number(name, help, count, float64(time.Second), of)
}

func measure(name, help string, of func(*kernel.Usage) *uint64) series {
	return number(name, help, gauge, 1, of)
}

func counted(name, help string, of func(*kernel.Usage) *uint64) series {
	return number(name, help, count, 1, of)
}

// quota returns a series of objects with a quota.
func quota(name, help string, unit float64, of func(*kernel.Usage) *uint64) series {
	return number(name, help, count, unit, func(u *kernel.Usage) *uint64 {
		if !hasQuota(u) {
			return nil
		}
		return of(u)
	})
}

func hasQuota(u *kernel.Usage) bool { return u.CPU.Quota != nil && *u.CPU.Quota != kernel.Unlimited }

// spec returns a series of a limit.
func spec(name, help string, of func(*kernel.Usage) *uint64) series {
	return series{name: name, help: help, kind: gauge, untimed: true, values: func(x *row, add adder) {
		if x.Usage == nil || !x.limited {
			return
		}
		if n := of(x.Usage); n != nil {
			add(float64(*n))
		}
	}}
}

func traffic(name, help string, of func(*kernel.Interface) *uint64) series {
	return timed(name, help, count, func(x *row, add adder) {
		for i := range x.network {
			if n := of(&x.network[i]); n != nil {
				add(float64(*n), "interface", x.network[i].Name)
			}
		}
	})
}

func some(p *kernel.Pressure) uint64 { return p.Some.Total }
func full(p *kernel.Pressure) uint64 { return p.Full.Total }

func stall(name, help string, of func(*kernel.Usage) *kernel.Pressure, total func(*kernel.Pressure) uint64) series {
	return inSeconds(name, help, func(u *kernel.Usage) *uint64 {
		p := of(u)
		if p == nil {
			return nil
		}
		return new(total(p))
	})
}

// known returns nil for 0, which means unknown.
func known(n uint64) *uint64 {
	if n == 0 {
		return nil
	}
	return &n
}

// bounded returns a limit as cAdvisor shows it: 0 if there is none.
func bounded(limit *uint64) *uint64 {
	if limit != nil && *limit == kernel.Unlimited {
		return new(uint64(0))
	}
	return limit
}
