package launcher

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxLocks bounds how much of the kernel's list of locks is read, in bytes. Any user can make it long.
	maxLocks = 16 << 20
	// maxCgroups and maxStatus bound what is read of a process, in bytes.
	maxCgroups, maxStatus = 64 << 10, 16 << 10
)

// lockHolder returns the process that locked a file; 0 if it isn't found: it may be of another PID namespace, or the file
// system may have other numbers for the kernel's list.
func lockHolder(stat *unix.Stat_t) int {
	file, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer file.Close()
	inode := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for scanner := bufio.NewScanner(io.LimitReader(file, maxLocks)); scanner.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 1183 fe:00:9978002 0 EOF
		if fields := strings.Fields(scanner.Text()); len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == inode {
			pid, _ := strconv.Atoi(fields[4])
			return pid
		}
	}
	return 0
}

// userOf returns the user of a process; -1 if it has several, or there is no such process.
func userOf(pid int) int {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	defer file.Close()
	for scanner := bufio.NewScanner(io.LimitReader(file, maxStatus)); scanner.Scan(); {
		// The owner of /proc/PID doesn't do: it is root for each process without core dumps.
		if ids, ok := strings.CutPrefix(scanner.Text(), "Uid:"); ok {
			if list := slices.Compact(strings.Fields(ids)); len(list) == 1 {
				uid, err := strconv.Atoi(list[0])
				if err != nil {
					return -1
				}
				return uid
			}
		}
	}
	return -1
}

// isOfUnit reports whether a process is in the control group of a system service.
func isOfUnit(pid int, unit string) bool {
	file, err := os.Open(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, maxCgroups)) // The process may have ended.
	return inUnit(string(text), unit)
}

// inUnit reports whether a list of a process's cgroups has that of a system service. A user can give such a name only to a
// cgroup below its own.
func inUnit(cgroups, unit string) bool {
	for line := range strings.Lines(cgroups) {
		// 0::/system.slice/podconfigd.service, or with cgroup v1 1:name=systemd:/system.slice/podconfigd.service
		if parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(parts) == 3 && parts[2] == "/system.slice/"+unit {
			return true
		}
	}
	return false
}
