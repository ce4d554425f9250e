package foreign

import (
	"bytes"
	"io"
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
	// volume is as in its arguments; empty: the process was started by a helper.
	volume string
	pid    int
	// group is its process group, which has what it has started too.
	group int
	// target is where it mounts; empty: nowhere, or its version doesn't say it.
	target string
	// kind is that of its job.
	kind string
	// started is the process's start time, as its number may be used again.
	started string
}

// findLeftovers returns the helpers that run on this machine, and what is left of those that mount.
func findLeftovers() []leftover {
	var all []leftover
	// A helper that is killed between the looks at its children and at itself isn't found in one pass. In the second one its children
	// are known as killed.
	for range 2 {
		dirs, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return all
		}
		for _, dir := range dirs {
			if l, ok := leftoverOf(dir); ok && len(all) < maxLeftover && !slices.Contains(all, l) {
				all = append(all, l)
			}
		}
	}
	return all
}

// leftoverOf returns what is known of a process, if it is a helper's of an earlier start.
func leftoverOf(dir string) (leftover, bool) {
	pid, err := strconv.Atoi(filepath.Base(dir))
	stat := readStat(dir)
	if err != nil || stat == nil {
		return leftover{}, false
	}
	l := leftover{pid: pid, started: stat[startField]}
	if l.group, err = strconv.Atoi(stat[groupField]); err != nil || l.group <= 0 {
		l.group = pid
	}
	// The command line of a process that hangs in a page fault can't be read. A helper has set its name, and has none.
	name, err := os.ReadFile(filepath.Join(dir, "comm"))
	switch {
	case err != nil:
		return leftover{}, false
	case strings.TrimSpace(string(name)) == commName:
		return l, isOwn(dir) && l.readArgs(dir)
	case !wasKilled(dir) || !isOwn(dir):
		return leftover{}, false
	}
	// What a helper has started, such as mount(8), may outlive it.
	l.kind, l.target = mountKind, targetOf(dir)
	return l, l.target != ""
}

// readArgs reads the arguments of a helper. It reports whether it is one: a container's process may have any name.
func (l *leftover) readArgs(dir string) bool {
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	args := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
	if err != nil || len(args) != 3 || args[0] != programName || !strings.HasPrefix(args[1], jobFlag) {
		return false
	}
	l.volume, l.kind, l.target = args[2], strings.TrimPrefix(args[1], jobFlag), targetOf(dir)
	return true
}

// targetVariable is the environment variable of a helper that mounts, and of what it has started, with the mount point.
const targetVariable = "PODSTREAM_MOUNT_TARGET"

// maxEnviron bounds what is read of a process's environment. A helper has little more than PATH.
const maxEnviron = 64 << 10

// targetOf returns where a process mounts for a helper; empty: its environment doesn't say it.
func targetOf(dir string) string {
	f, err := os.Open(filepath.Join(dir, "environ"))
	if err != nil {
		return ""
	}
	defer f.Close()
	// The environment of a process that hangs in a page fault may be unreadable. It isn't in a system call that mounts, and is killed.
	data, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return ""
	}
	for variable := range strings.SplitSeq(string(data), "\x00") {
		if at, ok := strings.CutPrefix(variable, targetVariable+"="); ok {
			return at
		}
	}
	return ""
}

// wasKilled reports whether a process has received SIGKILL, and hasn't ended yet: it is in a system call that can't be interrupted.
func wasKilled(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return false
	}
	const kill = 1 << (unix.SIGKILL - 1)
	for line := range strings.SplitSeq(string(data), "\n") {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if pending, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64); err == nil && pending&kill != 0 {
			return true
		}
	}
	return false
}

// mounting returns a BusyError while an earlier helper, or what it has started, may still mount at the target.
func (h *Helpers) mounting(volume, target string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if busy := h.mountsAt(volume, filepath.Clean(target)); busy != nil {
		return busy
	}
	return nil
}

// mountsAt is mounting. Without a target it returns nil. mu is held.
func (h *Helpers) mountsAt(volume, target string) *BusyError {
	if target == "" {
		return nil
	}
	var pids []int
	busy := false
	for _, of := range h.running {
		for p := range of {
			if p.target != target {
				continue
			}
			busy = true
			// One that is being started has no number yet.
			if pid := p.pid(); pid != 0 {
				pids = append(pids, pid)
			}
		}
	}
	h.leftovers = slices.DeleteFunc(h.leftovers, func(l leftover) bool {
		if !l.mayMount(volume, target) {
			return false
		}
		if startOf(l.pid) != l.started && !groupLives(l.group) {
			return true
		}
		busy, pids = true, append(pids, l.pid)
		return false
	})
	if !busy {
		return nil
	}
	slices.Sort(pids)
	return &BusyError{Volume: volume, Target: target, PIDs: pids}
}

// mayMount reports whether the process may mount at the target. That of a version which didn't name its target may mount at each one of
// its volume.
func (l *leftover) mayMount(volume, target string) bool {
	if l.kind != mountKind && l.kind != subPathKind {
		return false
	}
	return l.target == target || l.target == "" && l.volume == shown(volume)
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
	stateField = 0
	groupField = 2
	startField = 19
)

// readStat returns the fields after the name of a process; nil: it has ended, or is a zombie.
func readStat(dir string) []string {
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	// The name, in brackets, may have any characters.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= startField || fields[stateField] == "Z" || fields[stateField] == "X" {
		return nil
	}
	return fields
}

// groupLives reports whether a process of the group hasn't ended. A zombie, which init may never reap, has.
func groupLives(group int) bool {
	if unix.Kill(-group, 0) != nil {
		return false
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	return err != nil || slices.ContainsFunc(dirs, func(dir string) bool {
		stat := readStat(dir)
		return len(stat) > groupField && stat[groupField] == strconv.Itoa(group)
	})
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

// leftoversOf returns the processes of earlier starts for a volume. It forgets those that have ended. mu is held.
func (h *Helpers) leftoversOf(volume string) []int {
	var pids []int
	h.leftovers = slices.DeleteFunc(h.leftovers, func(l leftover) bool {
		if l.volume != shown(volume) {
			return false
		}
		if startOf(l.pid) != l.started {
			return true
		}
		pids = append(pids, l.pid)
		return false
	})
	return pids
}
