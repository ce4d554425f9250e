package kernel

import (
	"math"
	"time"
)

// Unlimited means no limit.
const Unlimited = math.MaxUint64

// Usage is the usage of a cgroup or of the machine. Nil means unknown.
type Usage struct {
	// At is the time of reading.
	At     time.Time
	CPU    CPU
	Memory Memory
	// IO is the time that tasks have waited for disks.
	IO *Pressure
	// Processes is the number of processes of the cgroup itself, and PID the first of them; zero: none, or none in
	// this PID namespace.
	Processes *uint64
	PID       int
	// Threads is the number of threads with all cgroups below. ThreadsMax is their limit.
	Threads, ThreadsMax *uint64
	Disks               []Disk
}

// CPU is CPU usage.
type CPU struct {
	// Total, User and System are nanoseconds since the creation of the cgroup, or the boot of the machine.
	Total, User, System *uint64
	// Periods is the number of periods with a quota, ThrottledPeriods of those in which it was used up, and
	// Throttled the nanoseconds lost to it.
	Periods, ThrottledPeriods, Throttled *uint64
	// Bursts is the number of periods that used more than the quota, saved from earlier ones; Burst the nanoseconds.
	Bursts, Burst *uint64
	// Shares are in units of version 1. Quota is in microseconds per Period.
	Shares, Quota, Period *uint64
	Pressure              *Pressure
}

// Memory is in bytes, except for counts.
type Memory struct {
	// WorkingSet is Usage without the inactive file cache.
	Usage, WorkingSet, RSS, Cache, Mapped, Kernel, ActiveFile, InactiveFile, Swap *uint64
	// Max is the highest Usage so far.
	Max *uint64
	// Faults and MajorFaults are page faults; Failures is the number of times the limit was reached, and OOMKills of
	// kills by the OOM killer; a group of processes counts once, and cgroups below this one don't.
	Faults, MajorFaults, Failures, OOMKills *uint64
	// Dirty and Writeback are bytes of files that aren't on disk yet.
	Dirty, Writeback *uint64
	// HighEvents and MaxEvents are the number of times that memory.high and memory.max were reached. Scanned and Reclaimed
	// count pages; RefaultsFile and RefaultsAnon those that were used again after they were reclaimed. Version 2 only.
	HighEvents, MaxEvents, Scanned, Reclaimed, RefaultsFile, RefaultsAnon *uint64
	// Limit and SwapLimit may be Unlimited; Reservation too, in version 1.
	Limit, SwapLimit, Reservation *uint64
	Pressure                      *Pressure
}

// Disk is the traffic of one disk.
type Disk struct {
	// Device is its number, as in 254:0.
	Device                               string
	ReadBytes, WriteBytes, Reads, Writes uint64
	// Operations are the bytes by kind of operation, if there are more kinds than Read and Write: in version 1.
	Operations []Operation
	// Cost is nil unless the disk has an I/O cost model, Times unless this is the machine's traffic.
	Cost  *IOCost
	Times *DiskTimes
}

// Operation is an amount of bytes: Read, Write, Sync, Async, Discard or Total.
type Operation struct {
	Name  string
	Bytes uint64
}

// IOCost are the times of the kernel's I/O cost model, in nanoseconds.
type IOCost struct{ Usage, Wait, Indebt, Indelay uint64 }

// DiskTimes is the traffic of a disk that only the machine's statistics have. Times are in nanoseconds.
type DiskTimes struct {
	ReadSectors, WriteSectors, ReadsMerged, WritesMerged, InProgress uint64
	Reading, Writing, Busy, Weighted                                 uint64
}

// Pressure is the time that tasks have waited: some of them, or all at once.
type Pressure struct{ Some, Full Stall }

// Stall has averages in percent, and the total in nanoseconds.
type Stall struct {
	Avg10, Avg60, Avg300 float64
	Total                uint64
}

// Interface is the traffic of a network interface.
type Interface struct {
	Name string
	// Receive and Transmit are since its creation.
	Receive, Transmit Traffic
}

// Traffic is the traffic of an interface in one direction. Packets and Dropped are nil if only bytes and errors are
// known.
type Traffic struct {
	Bytes, Errors    uint64
	Packets, Dropped *uint64
}
