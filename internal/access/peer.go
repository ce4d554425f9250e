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

// noUID is what the kernel takes for "no user".
const noUID = ^uint32(0)

// uidPrefix begins the identity of a caller on a Unix socket.
const uidPrefix = "uid:"

func uidIdentity(uid uint32) string { return uidPrefix + strconv.FormatUint(uint64(uid), 10) }

// Arrival is what is known of a connection at its accept, before anything is read from it.
type Arrival struct {
	// Peer is as Caller.Peer.
	Peer string
	// Owner: it is root's or the daemon's own user's, on a Unix socket.
	Owner bool
	// Stranger: it is a local user's who has no role. Over TCP only the handshake tells.
	Stranger bool
}

// Arrive looks at a connection that was just accepted. An error means that who made it can't be known.
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
	caller := a.caller(&AuthInfo{Peer: peer, Unix: cred}, a.rules.Load())
	return Arrival{Peer: peer, Owner: a.owner(cred.Uid), Stranger: caller.Role == None}, nil
}

func remoteIP(conn net.Conn) (string, error) {
	address, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return "", fmt.Errorf("the peer's address: %w", err)
	}
	return address.Addr().Unmap().WithZone("").String(), nil
}

func overTCP(conn net.Conn) bool { return conn.LocalAddr().Network() == "tcp" }

// peerCred is who made the connection, as of then, by the word of the kernel.
func peerCred(conn net.Conn) (*unix.Ucred, error) {
	switch network := conn.LocalAddr().Network(); network {
	case "unix":
	case "bufconn", "pipe":
		// It is in this process's memory, so the caller is this process.
		return &unix.Ucred{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid()), Pid: int32(os.Getpid())}, nil //nolint:gosec // Ids are 32 bits.
	default:
		return nil, fmt.Errorf("who calls over %q can't be known", network)
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil, errors.New("the connection doesn't show its socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("ask who calls: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return nil, fmt.Errorf("ask who calls: %w", err)
	}
	return cred, nil
}
