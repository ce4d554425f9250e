package kubeletproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// connectTime bounds one connection. That of a server whose queue is full waits.
const connectTime = 2 * time.Second

// sockets are the sockets that a kubelet serves in its directory, and that podexecd doesn't.
var sockets = []string{"pod-resources/kubelet.sock", "device-plugins/kubelet.sock"}

// serving returns the process that serves a kubelet's socket in the directory; nil: there is none. It finds a kubelet that is a part of a
// program with another name, such as k3s. namespace is podexecd's own PID namespace.
func (s Search) serving(ctx context.Context, namespace string) *Process {
	if s.Dir == "" {
		return nil
	}
	for _, name := range sockets {
		socket := filepath.Join(s.Dir, name)
		peer, err := server(ctx, socket)
		if err != nil || peer.Uid != 0 || int(peer.Pid) == os.Getpid() {
			continue
		}
		k := kubelet{dir: filepath.Join(s.Proc, strconv.Itoa(int(peer.Pid)))}
		if other, err := os.Readlink(filepath.Join(k.dir, "ns", "pid")); err != nil || other != namespace {
			continue // A device plugin has the directory too.
		}
		return &Process{PID: int(peer.Pid), Unit: k.unit(), Why: fmt.Sprintf("it serves %s (the program is %s)", socket, k.program())}
	}
	return nil
}

// errNoSocket is the error of a path that isn't a socket itself.
var errNoSocket = errors.New("it isn't a socket")

// server returns who listens on the socket. A link isn't followed: a device plugin could make one that leads to a socket of the node's.
func server(ctx context.Context, socket string) (*unix.Ucred, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	file, err := unix.Open(socket, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(file) }()
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errNoSocket
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", file))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return peer, peerErr
}

// program returns the name of the process's program, as the kernel has it: at most 15 bytes, quoted.
func (k *kubelet) program() string {
	name, err := os.ReadFile(filepath.Join(k.dir, "comm"))
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.64q", strings.TrimSpace(string(name)))
}
