package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/failpoint"
)

// The pause between two attempts of a removal doubles from firstPause to maxPause.
const (
	firstPause = time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// remove kills the processes in the cgroup and removes it with its children. The error is ErrBusy if ctx ends first.
func (g group) remove(ctx context.Context) error {
	pauses := wait.Backoff{Duration: firstPause, Factor: 2, Steps: 10, Cap: maxPause}
	for {
		dirs := g.dirs()
		if len(dirs) == 0 {
			return nil
		}
		why, err := g.removeNow(dirs)
		if err != nil || why == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, why)
		case <-time.After(pauses.Step()):
		}
	}
}

// removeNow is one attempt; why is the reason to retry.
func (g group) removeNow(dirs []string) (why, err error) {
	failpoint.Reached(failpoint.BeforeCgroupRemoval)
	left, err := killAll(dirs, g.fence)
	if err != nil {
		return nil, err
	}
	if left > 0 {
		return fmt.Errorf("%d processes are left", left), nil
	}
	if g.systemd {
		// The unit goes first: systemd would create the directories again. The loop below removes what systemd can't.
		_ = g.Destroy()
	}
	for _, dir := range dirs {
		if err := removeTree(dir); errors.Is(err, unix.EBUSY) {
			why = err
		} else if err != nil {
			return nil, err
		}
		failpoint.Reached(failpoint.CgroupPartGone)
	}
	if why == nil {
		failpoint.Reached(failpoint.AfterCgroupRemoval)
	}
	return why, nil
}

// killAll sends SIGKILL to each process in or below the directories, and returns their number. It calls fence before
// the first kill.
//
// It kills a process only if the cgroup still lists it while a pidfd refers to it, so that no other process with a
// reused PID is killed.
func killAll(dirs []string, fence func()) (int, error) {
	pids, err := processes(dirs)
	if err != nil || len(pids) == 0 {
		return 0, err
	}
	fence()
	held := map[int]int{}
	defer func() {
		for _, fd := range held {
			_ = unix.Close(fd)
		}
	}()
	for pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case err == nil:
			held[pid] = fd
		case pid <= 0:
			return 0, errors.New("it has a process outside of this PID namespace: podexecd needs the node's")
		case errors.Is(err, unix.ESRCH):
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			// A thread of a process that is listed too (a threaded cgroup of v2).
		default:
			return 0, fmt.Errorf("open process %d: %w", pid, err)
		}
	}
	still, err := processes(dirs)
	if err != nil {
		return 0, err
	}
	for pid, fd := range held {
		if !still[pid] {
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return len(pids), nil
}

// processes returns the PIDs in and below the directories.
func processes(dirs []string) (map[int]bool, error) {
	all := map[int]bool{}
	for _, dir := range dirs {
		pids, err := cgroups.GetAllPids(dir)
		if err != nil && !isGone(err) {
			return nil, fmt.Errorf("list the processes of %s: %w", dir, err)
		}
		for _, pid := range pids {
			all[pid] = true
		}
	}
	return all, nil
}

// removeTree removes a cgroup directory and its children. The kernel removes the files in them.
func removeTree(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || isGone(err) {
		return nil
	}
	entries, listErr := os.ReadDir(dir)
	if listErr != nil && !isGone(listErr) {
		return fmt.Errorf("list %s: %w", dir, listErr)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !isGone(err) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// isGone reports whether a cgroup file or directory is gone; an open one then returns ENODEV.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
