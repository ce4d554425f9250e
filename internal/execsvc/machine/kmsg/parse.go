package kmsg

import (
	"strconv"
	"strings"
)

// OOM is one report of the kernel's OOM killer.
type OOM struct {
	// System is set if the machine, or the memory that a cpuset or a memory policy allows, ran out. Otherwise a cgroup
	// reached its limit.
	System bool
	// Process and PID are the killed process, as the first PID namespace has it. They are empty and 0 if the report
	// doesn't name it. Bytes of the name that can't be printed are escaped, as in \x0a.
	Process string
	PID     int
}

// kernelFacility is the syslog facility of the kernel. A record written through /dev/kmsg never has it.
const kernelFacility = 0

// message returns the text of a record, and reports whether the kernel wrote it. A record is
// "PRIORITY,SEQUENCE,MICROSECONDS,FLAG[,...];TEXT\n", and may have more lines with names and values.
func message(record string) (text string, kernel bool) {
	header, rest, found := strings.Cut(record, ";")
	if !found {
		return "", false
	}
	number, _, found := strings.Cut(header, ",")
	if !found {
		return "", false
	}
	// The priority has the level in three bits and the facility above them.
	priority, err := strconv.ParseUint(number, 10, 16)
	if err != nil || priority>>3 != kernelFacility {
		return "", false
	}
	text, _, _ = strings.Cut(rest, "\n")
	return text, true
}

// scanner finds reports in successive messages of the kernel.
type scanner struct {
	// unnamed is a report whose victim is still to be named: another processor's message has split the line.
	unnamed bool
	system  bool
}

const (
	// summary begins the line with all of a report in short: "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),
	// cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a,task=sh,pid=7,uid=0". Instead of oom_memcg it has global_oom
	// if no limit of a cgroup was the cause.
	summary = "oom-kill:constraint="
	// ofCgroup is the constraint of a cgroup's limit. It stands before everything that a process can choose.
	ofCgroup = "CONSTRAINT_MEMCG"
	// killed is in the line after a kill: "Out of memory: Killed process 7 (sh) total-vm:30956kB, ...". Before it is
	// "Out of memory" or "Memory cgroup out of memory".
	killed = ": Killed process "
)

// next returns the report that ends with the message, if any.
func (s *scanner) next(text string) (OOM, bool) {
	if rest, is := strings.CutPrefix(text, summary); is {
		constraint, rest, _ := strings.Cut(rest, ",")
		switch constraint {
		case ofCgroup, "CONSTRAINT_NONE", "CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY":
		default:
			return OOM{}, false
		}
		s.system = constraint != ofCgroup
		process, pid, named := victimOfSummary(rest)
		if s.unnamed = !named; s.unnamed {
			return OOM{}, false
		}
		return OOM{s.system, process, pid}, true
	}
	if !s.unnamed {
		return OOM{}, false
	}
	before, rest, is := strings.Cut(text, killed)
	if !is || !strings.HasPrefix(before, "Out of memory") && before != "Memory cgroup out of memory" {
		return OOM{}, false
	}
	s.unnamed = false
	process, pid := victimOfKill(rest)
	return OOM{s.system, process, pid}, true
}

// victimOfSummary returns the last fields of a summary. It reads them from the end, since the name of a cgroup or a
// process may contain what looks like a field.
func victimOfSummary(fields string) (process string, pid int, ok bool) {
	fields, _, ok = cutLast(fields, ",uid=")
	if !ok {
		return "", 0, false
	}
	fields, number, ok := cutLast(fields, ",pid=")
	if !ok {
		return "", 0, false
	}
	_, process, ok = strings.Cut(fields, ",task=")
	pid, valid := pidOf(number)
	if !ok || !valid {
		return "", 0, false
	}
	return bounded(process), pid, true
}

// victimOfKill returns the victim of "7 (sh) total-vm:30956kB, ...".
func victimOfKill(text string) (process string, pid int) {
	number, rest, _ := strings.Cut(text, " (")
	process, _, named := cutLast(rest, ") total-vm:")
	pid, valid := pidOf(number)
	if !named || !valid {
		return "", 0
	}
	return bounded(process), pid
}

func pidOf(number string) (pid int, ok bool) {
	n, err := strconv.ParseUint(number, 10, 31)
	return int(n), err == nil && n > 0
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// maxName is the length of a process's name, 15 bytes, of which each may be escaped as \x0a.
const maxName = 15 * len(`\x0a`)

func bounded(name string) string { return name[:min(len(name), maxName)] }
