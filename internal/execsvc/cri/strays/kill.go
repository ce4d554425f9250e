package strays

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// Kill kills the processes of a container that run the command and were started from outside of the container. proc is
// Proc, except in tests. It returns how many it has killed.
func Kill(proc, containerID string, command []string) (killed int, err error) {
	dir, err := os.Open(proc)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		// The cgroup is checked again below. Most processes are of other containers.
		if err != nil || pid <= 1 || !inContainer(proc, pid, containerID) {
			continue
		}
		done, err := kill(proc, pid, containerID, command)
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
	parent, ok := parentOf(proc, pid)
	if !ok || !inContainer(proc, pid, containerID) || inContainer(proc, parent, containerID) || !runs(proc, pid, command) {
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

// parentOf returns the number of a process's parent: zero if that is in another PID namespace.
func parentOf(proc string, pid int) (parent int, ok bool) {
	stat, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	// PID (NAME) STATE PARENT. The name may have any characters.
	_, rest, found := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), ")")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, err == nil
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
