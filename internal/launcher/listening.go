package launcher

import (
	"encoding/binary"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// diagTime bounds the time for the list of listening sockets, which any user can make long.
const diagTime = 2 * time.Second

// The kernel's interface of unix_diag.h.
const (
	diagListening            = 1 << 10 // TCP_LISTEN
	diagShowVFS, diagShowUID = 0x2, 0x40
	diagVFS, diagUID         = 1, 7
	diagHeader               = 16
)

// listener reports whether a socket of this network namespace listens that is bound to this very file, and returns the user that
// made it; -1 if that isn't known. It doesn't connect, as that would have systemd start a daemon. The kernel's list of paths
// doesn't do, as any user can bind a socket to that path in a mount namespace of its own. Without the kernel's list of files,
// there is none: the daemon itself finds the other one.
func listener(stat *unix.Stat_t) (uid int, found bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, false
	}
	defer func() { _ = unix.Close(fd) }()
	request := make([]byte, unix.SizeofNlMsghdr+24)
	order := binary.NativeEndian
	order.PutUint32(request, uint32(len(request))) //nolint:gosec // It is 40.
	order.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[16] = unix.AF_UNIX
	order.PutUint32(request[20:], diagListening)
	order.PutUint32(request[28:], diagShowVFS|diagShowUID)
	timeout := unix.NsecToTimeval(diagTime.Nanoseconds())
	if unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout) != nil || unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return -1, false
	}
	buffer := make([]byte, 1<<16)
	for end := time.Now().Add(diagTime); time.Now().Before(end); {
		n, err := unix.Read(fd, buffer)
		if err != nil || n == 0 {
			return -1, false
		}
		uid, found, more := diagMessages(buffer[:n], stat)
		if found || !more {
			return uid, found
		}
	}
	return -1, false
}

// diagMessages looks for the socket in messages of the kernel. more: these aren't the last ones.
func diagMessages(b []byte, stat *unix.Stat_t) (uid int, found, more bool) {
	order := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(order.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) || order.Uint16(b[4:]) != unix.SOCK_DIAG_BY_FAMILY {
			return -1, false, false // Also NLMSG_DONE and NLMSG_ERROR.
		}
		if size >= unix.SizeofNlMsghdr+diagHeader {
			if uid, found := diagSocket(b[unix.SizeofNlMsghdr+diagHeader:size], stat); found {
				return uid, true, false
			}
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return -1, false, true
}

// diagSocket looks at the attributes of one socket.
func diagSocket(b []byte, stat *unix.Stat_t) (uid int, found bool) {
	order := binary.NativeEndian
	uid = -1
	for len(b) >= unix.SizeofNlAttr {
		size := int(order.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			break
		}
		value := b[unix.SizeofNlAttr:size]
		switch kind := order.Uint16(b[2:]); {
		case kind == diagVFS && len(value) >= 8:
			// The kernel's own form of a device's number.
			dev := unix.Major(stat.Dev)<<20 | unix.Minor(stat.Dev)
			// The list has the low half of the inode.
			found = uint64(order.Uint32(value)) == stat.Ino&math.MaxUint32 && order.Uint32(value[4:]) == dev
		case kind == diagUID && len(value) >= 4:
			uid = int(order.Uint32(value))
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return uid, found
}
