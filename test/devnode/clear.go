package devnode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// clear ends all processes that run below the node's directory and removes its content, except the logs and the lock.
// It uses only the state on the machine, not this process's state, so that it also works after a crash.
func (n *Node) clear() error {
	sockets, err := n.oldSocketDir()
	if err != nil {
		return err
	}
	if err := errors.Join(n.killAll(sockets), n.removeShimSockets(), n.removeCgroups(), unmountBeneath(n.dir)); err != nil {
		return err // a mount could lead outside, and a process could still use the files
	}
	if sockets != "" {
		if err := os.RemoveAll(sockets); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == lockFile || entry.Name() == logDir {
			continue
		}
		if err := os.RemoveAll(filepath.Join(n.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// oldSocketDir returns the existing short directory for this node's sockets, or nothing.
func (n *Node) oldSocketDir() (string, error) {
	dir, err := os.Readlink(filepath.Join(n.dir, socketLink))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(filepath.Base(dir), "devnode-") {
		return "", fmt.Errorf("%s points to %s, which no devnode made", filepath.Join(n.dir, socketLink), dir)
	}
	return dir, nil
}

// killTimeout bounds the wait for the end of one process after SIGKILL.
const killTimeout = 10 * time.Second

// killPrograms kills the processes of the named programs that have a path below one of dirs among their arguments.
func killPrograms(dirs []string, names ...string) error {
	pids, err := processIDs()
	if err != nil {
		return err
	}
	var errs []error
	for _, pid := range pids {
		if pid == os.Getpid() || !isProgramOf(pid, dirs, names) {
			continue
		}
		errs = append(errs, killPinned(pid, func() bool { return isProgramOf(pid, dirs, names) }))
	}
	return errors.Join(errs...)
}

// processIDs lists all processes of the machine.
func processIDs() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// commandLine returns a process's program and arguments. It returns nothing for a process that has ended.
func commandLine(pid int) []string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return []string{""}
	}
	return strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
}

// isProgramOf reports whether a process is one of the named programs, with a path beneath one of dirs among its
// arguments.
func isProgramOf(pid int, dirs, names []string) bool {
	args := commandLine(pid)
	if !slices.Contains(names, filepath.Base(args[0])) {
		return false
	}
	for _, arg := range args[1:] {
		// In an argument such as --listen=unix:///path, the path starts at the first slash that starts a path.
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		arg = strings.TrimPrefix(arg, "unix://")
		if slices.ContainsFunc(dirs, func(dir string) bool { return within(arg, dir) }) {
			return true
		}
	}
	return false
}

// killPinned kills a process and waits for its end. The pidfd ensures that it is the process that isOurs checked, even
// if another process gets the same process ID in the meantime.
func killPinned(pid int, isOurs func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pin process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }() // closing it can't fail
	if !isOurs() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	deadline := time.Now().Add(killTimeout)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("process %d still exists %v after SIGKILL", pid, killTimeout)
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
		// The poll ended because the process ended, or by the timeout.
		if err := unix.PidfdSendSignal(fd, 0, nil, 0); errors.Is(err, unix.ESRCH) || isZombie(pid) {
			return nil
		}
	}
}

// isZombie reports whether a process has ended and hasn't been reaped by its parent.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, fields, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	return ok && strings.HasPrefix(fields, "Z")
}

// deleteContainers kills all containers of this node through runc, and removes their cgroups.
func (n *Node) deleteContainers() error {
	entries, err := os.ReadDir(n.runcRoot())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	runc, err := findTool(n.config, "runc")
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		output, err := exec.Command(runc, "--root", n.runcRoot(), "delete", "--force", entry.Name()).CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("delete container %s: %w\n%s", entry.Name(), err, output))
		}
	}
	return errors.Join(errs...)
}

// removeShimSockets removes the sockets of killed shims. They are always in /run/containerd/s. Only the shims' bundles
// contain their paths.
func (n *Node) removeShimSockets() error {
	entries, err := os.ReadDir(n.shimBundles())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, entry := range entries {
		socket, err := n.shimSocket(entry.Name())
		if err == nil {
			err = removeSocket(socket)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unmountBeneath unmounts all mounts below dir, and checks that none is left.
func unmountBeneath(dir string) error {
	mounts, err := mountsBeneath(dir)
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(mounts) { // the latest mount first
		// Lazily: the processes have ended, and another mount namespace may still refer to the mount.
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if mounts, err = mountsBeneath(dir); err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("still mounted: %s", strings.Join(mounts, ", "))
	}
	return nil
}

// mountsBeneath lists the mount points beneath dir in the order in which they were mounted.
func mountsBeneath(dir string) ([]string, error) {
	infos, err := mount.ParseMountInfo("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var paths []string
	for _, info := range infos {
		path := unescapeMount(info.MountPoint)
		if path != dir && within(path, dir) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// unescapeMount decodes the kernel's escapes of blanks, newlines and backslashes in the mount table.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
