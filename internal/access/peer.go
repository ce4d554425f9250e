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

// Peer is what limits are counted by, known before any handshake: "uid:0" on a Unix socket, the IP address over TCP.
func Peer(conn net.Conn) (string, error) {
	if overTCP(conn) {
		address, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if err != nil {
			return "", fmt.Errorf("the peer's address: %w", err)
		}
		return address.Addr().Unmap().WithZone("").String(), nil
	}
	cred, err := peerCred(conn)
	if err != nil {
		return "", err
	}
	return uidIdentity(cred.Uid), nil
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
