package foreign

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLeftover bounds the helpers of earlier starts that are counted.
const maxLeftover = 4096

// leftover is a helper of an earlier start of podexecd, which ends when its file system answers.
type leftover struct {
	// volume is as in its arguments.
	volume string
	pid    int
	// target is where it mounts; empty: nowhere, or it has no note that says so. any is set if its note can't be read.
	target string
	any    bool
	// unseen is set if it can't be seen from podexecd's PID namespace. It counts until its note is removed.
	unseen bool
	// note is the path of its note; empty: it has none.
	note string
	// kind is that of its job.
	kind string
	// started is the process's start time, as its number may be used again.
	started string
}

// findLeftovers returns the helpers that run on this machine. What those have started that mount is known from their notes.
func findLeftovers() []leftover {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var all []leftover
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || len(all) == maxLeftover {
			continue
		}
		// The command line of a process that hangs in a page fault can't be read. A helper has set its name, and has none.
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil || strings.TrimSpace(string(name)) != commName {
			continue
		}
		if !isOwn(dir) {
			continue // A container's process may have any name and arguments.
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
		if err != nil || len(args) != 3 || args[0] != programName || !strings.HasPrefix(args[1], jobFlag) {
			continue
		}
		if at := startOf(pid); at != "" {
			all = append(all, leftover{volume: args[2], pid: pid, kind: strings.TrimPrefix(args[1], jobFlag), started: at})
		}
	}
	return all
}

// lives reports whether the process, or what it has started, hasn't ended. Its number isn't given to another one while its group exists.
func (l *leftover) lives() bool {
	switch at := startOf(l.pid); {
	case l.unseen:
		_, err := os.Lstat(l.note)
		return !errors.Is(err, fs.ErrNotExist)
	case at != "":
		return at == l.started
	default:
		return groupLives(l.pid)
	}
}

// isOwn reports whether a process can be one of podexecd's: root's, in podexecd's mount namespace. One that hides its namespace can.
func isOwn(dir string) bool {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || int(st.Uid) != os.Geteuid() {
		return false
	}
	own, ownErr := os.Readlink("/proc/self/ns/mnt")
	of, err := os.Readlink(filepath.Join(dir, "ns", "mnt"))
	return ownErr != nil || err != nil || of == own
}

// startOf returns the start time of a process; empty: it has ended, or is a zombie.
func startOf(pid int) string {
	stat := readStat("/proc/" + strconv.Itoa(pid))
	if stat == nil {
		return ""
	}
	return stat[startField]
}

// The fields of /proc/PID/stat after the name.
const (
	stateField   = 0
	groupField   = 2
	threadsField = 17
	startField   = 19
)

// readStat returns the fields after the name of a process; nil: it has ended, or is a zombie.
func readStat(dir string) []string {
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	// The name, in brackets, may have any characters.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= startField || fields[stateField] == "X" {
		return nil
	}
	// The first thread of a process that was killed is a zombie, while another one is in a system call that can't be interrupted.
	if threads, err := strconv.Atoi(fields[threadsField]); fields[stateField] == "Z" && err == nil && threads <= 1 {
		return nil
	}
	return fields
}

// groupLives reports whether a process of the group hasn't ended. A zombie, which init may never reap, has.
func groupLives(group int) bool { return len(groupMembers(group)) > 0 }

// groupMembers returns the processes of the group that haven't ended. If that can't be read, it is the first one.
func groupMembers(group int) []int {
	if unix.Kill(-group, 0) != nil {
		return nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return []int{group}
	}
	var all []int
	for _, dir := range dirs {
		stat := readStat(dir)
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && len(stat) > groupField && stat[groupField] == strconv.Itoa(group) {
			all = append(all, pid)
		}
	}
	return all
}

// membersOf returns the processes of a helper that haven't ended: itself, and what it has started. If all end meanwhile, it is itself.
func membersOf(pid int) []int {
	if all := groupMembers(pid); len(all) > 0 {
		return all
	}
	return []int{pid}
}

// Changing returns a BusyError while a helper of an earlier start may still change the directories of claims in a --volume-dir.
func (h *Helpers) Changing(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changing(dir)
}

// changing is Changing. mu is held.
func (h *Helpers) changing(dir string) error {
	h.leftoversOf(dir)
	var pids []int
	for _, l := range h.leftovers {
		if l.volume == shown(dir) && changesTree[l.kind] {
			pids = append(pids, l.pid)
		}
	}
	if pids == nil {
		return nil
	}
	slices.Sort(pids)
	return &BusyError{Volume: dir, PIDs: pids, Claims: true}
}

// leftoversOf returns the processes of earlier starts for a volume. It forgets those that have ended. Those that can't be seen don't count: most
// have ended, and only their targets must wait. mu is held.
func (h *Helpers) leftoversOf(volume string) []int {
	var pids []int
	h.leftovers = slices.DeleteFunc(h.leftovers, func(l leftover) bool {
		if l.volume != shown(volume) || l.unseen {
			return false
		}
		if !l.lives() {
			return true
		}
		pids = append(pids, l.pid)
		return false
	})
	return pids
}
