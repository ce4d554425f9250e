package handler

import (
	"context"
	"net"
	"time"

	v1 "k8s.io/api/core/v1"
)

// dial opens a connection for a handler. Its socket lingers for at most a second after it is closed: a node that probes
// hundreds of containers each second would otherwise run out of ports (kubernetes/kubernetes#89898).
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(1) // The connection works without it too.
	}
	return conn, nil
}

func probeTCP(ctx context.Context, t Target, action *v1.TCPSocketAction, timeout time.Duration) (Outcome, string, error) {
	addr, err := address(t, action.Host, action.Port)
	if err != nil {
		return Failure, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return Failure, err.Error(), nil
	}
	_ = conn.Close() // The open connection is the success.
	return Success, "", nil
}
