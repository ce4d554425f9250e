package passthrough

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// keepAlive detects that the peer of an idle connection is dead. The kernel ends the connection after Config.Stalled.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// bound makes the kernel end a connection whose peer acknowledges no bytes, or has no room for them, for so long.
// Without it, the kernel sends them again for 15 minutes to a dead peer, and for ever to one that doesn't read. It
// fails only on a connection that has ended.
func bound(conn net.Conn, stalled time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(keepAlive)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stalled.Milliseconds()))
	})
}
