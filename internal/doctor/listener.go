package doctor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// listener returns the process that listens on a Unix socket. Its flags name files that doctor reads, and a kubeconfig
// may even name programs: so it must be root's, or the caller's.
func listener(socket string) (pid int, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.UnixConn).SyscallConn() //nolint:forcetypeassert // It was dialed as one.
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); controlErr != nil {
		return 0, controlErr
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("find the process that listens on %s: %w", socket, err)
	case peer.Uid != 0 && int(peer.Uid) != os.Geteuid():
		return 0, fmt.Errorf("a process of user %d listens on %s: doctor reads the flags of root's processes and of your own only", peer.Uid, socket)
	case peer.Pid == 0:
		return 0, errors.New("the process can't be found; it may run in a container")
	case peer.Pid == 1 && os.Getpid() != 1:
		return heir(socket)
	}
	return int(peer.Pid), nil
}

// heir returns the process that has a listening socket from systemd, which the kernel names as the listener: podexecd's
// socket may be activated.
func heir(socket string) (pid int, err error) {
	candidates, err := listening(socket)
	if err != nil {
		return 0, err
	}
	if len(candidates) == 0 {
		return 0, fmt.Errorf("no process of this network namespace listens on %s", socket)
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	var failed error
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil || !candidates[target] {
			continue
		}
		parts := strings.Split(file, "/")
		pid, err := strconv.Atoi(parts[2])
		if err != nil || pid == 1 {
			continue
		}
		fd, err := strconv.Atoi(parts[4])
		if err != nil {
			continue
		}
		same, err := isBound(pid, fd, socket)
		if same {
			return pid, nil
		}
		failed = err
	}
	return 0, errors.Join(fmt.Errorf("no process has taken %s over from systemd", socket), failed)
}

// listening returns the listening sockets that were bound to a path of that name, as /proc/PID/fd names them. Those of
// other mount namespaces, or of files that were renamed, are among them: any user can make such a socket.
func listening(socket string) (map[string]bool, error) {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	const accepts = "00010000" // the flag of a listening socket
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 8 && fields[3] == accepts && fields[7] == socket {
			out["socket:["+fields[6]+"]"] = true
		}
	}
	return out, nil
}

// siocUnixFile is SIOCUNIXFILE of linux/un.h: it opens the file that a Unix socket is bound to, with O_PATH.
const siocUnixFile = 0x89E0

// isBound reports whether the descriptor of another process is a socket that is bound to this very file.
func isBound(pid, fd int, socket string) (bool, error) {
	want, err := os.Stat(socket)
	if err != nil {
		return false, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(process) }()
	copied, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return false, fmt.Errorf("examine a socket of process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(copied) }()
	bound, err := unix.IoctlRetInt(copied, siocUnixFile)
	if err != nil {
		return false, fmt.Errorf("find the file of a socket of process %d: %w", pid, err)
	}
	file := os.NewFile(uintptr(bound), socket) //nolint:gosec // The kernel returns a descriptor.
	defer func() { _ = file.Close() }()
	have, err := file.Stat()
	return err == nil && os.SameFile(have, want), err
}
