package kernel

import (
	"math"
	"time"
)

// Unlimited is a limit that there isn't.
const Unlimited = math.MaxUint64

// Usage is what a cgroup, or the machine, uses. Nil is what isn't known.
type Usage struct {
	// At is when it was read.
	At     time.Time
	CPU    CPU
	Memory Memory
	// IO is how long tasks have waited for disks.
	IO *Pressure
	// Processes are those of the cgroup itself, and PID is one of them, the first; zero: none, or none that is seen from here.
	Processes *uint64
	PID       int
	// Threads are those of all cgroups below too. ThreadsMax is their limit.
	Threads, ThreadsMax *uint64
	Disks               []Disk
}

// CPU is the use of processors.
type CPU struct {
	// Total, User and System are nanoseconds since the cgroup was made, or since the machine was started.
	Total, User, System *uint64
	// Periods are those in which the quota counted, ThrottledPeriods those in which it was used up, and Throttled the nanoseconds lost to it.
	Periods, ThrottledPeriods, Throttled *uint64
	// Shares are those of version 1. Quota is in microseconds a Period.
	Shares, Quota, Period *uint64
	Pressure              *Pressure
}

// Memory is in bytes, where it isn't counts.
type Memory struct {
	// WorkingSet is Usage without the file cache that nobody has used lately.
	Usage, WorkingSet, RSS, Cache, Mapped, Kernel, ActiveFile, InactiveFile, Swap *uint64
	// Max is the most that Usage has been.
	Max *uint64
	// Faults and MajorFaults are page faults; Failures is how often the limit was hit, and OOMKills how many processes were killed for it.
	Faults, MajorFaults, Failures, OOMKills *uint64
	// Limit and SwapLimit may be Unlimited; Reservation too, in version 1.
	Limit, SwapLimit, Reservation *uint64
	Pressure                      *Pressure
}

// Disk is what was read from and written to one.
type Disk struct {
	// Device is its numbers, as in 254:0.
	Device                               string
	ReadBytes, WriteBytes, Reads, Writes uint64
}

// Pressure is for how long tasks have waited: some of them, or all at once.
type Pressure struct{ Some, Full Stall }

// Stall has averages in percent, and the sum in nanoseconds.
type Stall struct {
	Avg10, Avg60, Avg300 float64
	Total                uint64
}

// Interface is a network interface and what has passed it.
type Interface struct {
	Name string
	// Receive and Transmit are since it was made.
	Receive, Transmit Traffic
}

// Traffic is what has passed an interface in one direction. Packets and Dropped are nil if only bytes and errors are known.
type Traffic struct {
	Bytes, Errors    uint64
	Packets, Dropped *uint64
}
