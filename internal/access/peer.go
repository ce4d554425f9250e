package access

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// noUID is the kernel's value for "no user".
const noUID = ^uint32(0)

// uidPrefix starts the identity of a caller on a Unix socket.
const uidPrefix = "uid:"

func uidIdentity(uid uint32) string { return uidPrefix + strconv.FormatUint(uint64(uid), 10) }

// Arrival describes a connection when it is accepted, before anything is read from it.
type Arrival struct {
	// Peer is as Caller.Peer.
	Peer string
	// Owner reports whether it is root's or the daemon's own, on a Unix socket.
	Owner bool
	// Stranger reports whether it is of a local user without a role. Over TCP only the handshake determines the role.
	Stranger bool
}

// Arrive examines a connection that was just accepted. An error means that its caller can't be determined.
func (a *Access) Arrive(conn net.Conn) (Arrival, error) {
	if overTCP(conn) {
		peer, err := remoteIP(conn)
		return Arrival{Peer: peer}, err
	}
	cred, err := peerCred(conn)
	if err != nil {
		return Arrival{}, err
	}
	peer := uidIdentity(cred.Uid)
	info := &AuthInfo{Peer: peer, Unix: cred, Elsewhere: isElsewhere(conn, cred.Pid)}
	caller := a.caller(info, a.rules.Load())
	return Arrival{Peer: peer, Owner: a.isOwner(info), Stranger: caller.Role == None}, nil
}

// elsewhere reports whether a process has another mount namespace than this one. A process that is hidden, or has
// ended, counts as such.
func elsewhere(pid int32) bool {
	own, err := os.Stat("/proc/self/ns/mnt")
	if err != nil || pid <= 0 {
		return true
	}
	other, err := os.Stat(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	return err != nil || !os.SameFile(own, other)
}

// isElsewhere reports whether the process that made a connection is elsewhere; pid is its own. It may have ended and
// left its socket to another process, and a third process may have its pid by now.
func isElsewhere(conn net.Conn, pid int32) bool { return elsewhere(pid) || hasEnded(conn) }

// hasEnded reports whether the process that made a connection has ended. Before 6.5, Linux doesn't report it.
func hasEnded(conn net.Conn) bool {
	if conn.LocalAddr().Network() != "unix" {
		return false // an in-memory connection of this process
	}
	ended := true
	err := control(conn, func(fd int) error {
		peer, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err != nil {
			ended = !errors.Is(err, unix.ENOPROTOOPT)
			return nil
		}
		defer func() { _ = unix.Close(peer) }()
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(peer), Events: unix.POLLIN}}, 0) //nolint:gosec // Descriptors have 31 bits.
		ended = n != 0
		return err
	})
	return ended || err != nil
}

// control calls f with the connection's socket.
func control(conn net.Conn, f func(fd int) error) error {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return errors.New("the connection doesn't show its socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

func remoteIP(conn net.Conn) (string, error) {
	address, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return "", fmt.Errorf("the peer's address: %w", err)
	}
	return address.Addr().Unmap().WithZone("").String(), nil
}

func overTCP(conn net.Conn) bool { return conn.LocalAddr().Network() == "tcp" }

// peerCred returns the kernel's credentials of the process that made the connection, at that time.
func peerCred(conn net.Conn) (*unix.Ucred, error) {
	switch network := conn.LocalAddr().Network(); network {
	case "unix":
	case "bufconn", "pipe":
		// An in-memory connection: the caller is this process.
		return &unix.Ucred{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid()), Pid: int32(os.Getpid())}, nil //nolint:gosec // Ids are 32 bits.
	default:
		return nil, fmt.Errorf("the caller of a %q connection can't be determined", network)
	}
	var cred *unix.Ucred
	err := control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the caller's credentials: %w", err)
	}
	return cred, nil
}
