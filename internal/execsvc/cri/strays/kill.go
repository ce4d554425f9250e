package strays

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/cri/exits"
)

// Proc is where the kernel shows processes.
const Proc = "/proc"

// maxArguments bounds the arguments that are read of a process, in bytes.
const maxArguments = 64 << 10

// containerIDs are the IDs of containerd and CRI-O. The name of another cgroup, as "kubepods", is none.
var containerIDs = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Killer kills commands in containers. It is safe for concurrent use.
type Killer struct {
	proc  string
	scans *scans
}

// New returns a Killer. proc is Proc, except in tests.
func New(proc string) *Killer {
	return &Killer{proc, newScans(func(ids []string) (map[string][]int, error) { return scan(proc, ids) })}
}

// Kill kills the processes of a container that run the command, whose arguments no other command may have. It returns how many it
// has killed.
func (k *Killer) Kill(containerID string, command []string) (killed int, err error) {
	if !containerIDs.MatchString(containerID) {
		return 0, fmt.Errorf("the ID of the container isn't 64 hexadecimal digits, so it may be another cgroup's name: %.100q", containerID)
	}
	pids, err := k.scans.of(containerID)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, pid := range pids {
		done, err := kill(k.proc, pid, containerID, command)
		if done {
			killed++
		}
		errs = append(errs, err)
	}
	return killed, errors.Join(errs...)
}

// kill kills a process if it is one of those.
func kill(proc string, pid int, containerID string, command []string) (killed bool, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if !inContainer(proc, pid, containerID) || !runs(proc, pid, command) {
		return false, nil
	}
	// If it is alive, all that was read was this process's: its number wasn't free. The signal is for the pidfd's
	// process only.
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); errors.Is(err, unix.ESRCH) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("kill process %d: %w", pid, err)
	}
	return true, nil
}

// inContainer reports whether a process is in the container's cgroup.
func inContainer(proc string, pid int, containerID string) bool {
	cgroups, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	return err == nil && exits.InContainer(string(cgroups), containerID)
}

// runs reports whether the arguments of a process are the command's. A script has its interpreter and its own path
// before them.
func runs(proc string, pid int, command []string) bool {
	file, err := os.Open(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxArguments))
	if err != nil || len(command) < 2 {
		return false
	}
	arguments := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	wanted := command[1:]
	return len(arguments) > len(wanted) && slices.Equal(arguments[len(arguments)-len(wanted):], wanted)
}
