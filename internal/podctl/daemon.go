package podctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// daemon is one of the two that podctl talks to.
type daemon struct {
	name     string
	endpoint endpoint
}

// connection is a gRPC connection to a daemon that remembers why it couldn't be made.
type connection struct {
	*grpc.ClientConn
	daemon daemon

	mu      sync.Mutex
	dialErr error // of the last attempt; nil if it went well
}

// connect prepares a connection. It is made with the first call, which also reports the failure.
func (d daemon) connect(userAgent string) (*connection, error) {
	c := &connection{daemon: d}
	conn, err := grpc.NewClient("passthrough:///"+d.name,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket's permissions and SO_PEERCRED protect it
		grpc.WithContextDialer(c.dial),
		grpc.WithAuthority("localhost"),
		grpc.WithUserAgent(userAgent))
	if err != nil {
		return nil, fmt.Errorf("connect to %s at %s: %w", d.name, &d.endpoint, err)
	}
	c.ClientConn = conn
	return c, nil
}

// dial ignores the address: gRPC would have to be given a path, which it can't always parse back.
func (c *connection) dial(ctx context.Context, _ string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", c.daemon.endpoint.path)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialErr = err
	return conn, err
}

// explain turns the error of a call into one that names the endpoint and what to check. The gRPC code stays readable with
// status.Code.
func (c *connection) explain(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	dialErr := c.dialErr
	c.mu.Unlock()

	name, at := c.daemon.name, &c.daemon.endpoint
	st := status.Convert(err)
	var text string
	switch st.Code() {
	case codes.Unavailable:
		if dialErr == nil {
			text = fmt.Sprintf("lost %s at %s: %s (was it stopped? look at its log)", name, at, st.Message())
			break
		}
		text = fmt.Sprintf("can't reach %s at %s: %s", name, at, dialHint(name, dialErr))
	case codes.DeadlineExceeded:
		text = fmt.Sprintf("%s at %s didn't answer in time: look at its log, or give it longer with --request-timeout", name, at)
	case codes.PermissionDenied, codes.Unauthenticated:
		text = fmt.Sprintf("%s at %s refuses you: %s: run podctl as root, or as a user that %s admits", name, at, st.Message(), name)
	case codes.Unimplemented:
		text = fmt.Sprintf("what listens at %s doesn't know this call: %s: is it %s, and not older than podctl?", at, st.Message(), name)
	default:
		text = fmt.Sprintf("%s at %s: %s: %s", name, at, st.Code(), st.Message())
	}
	return &callError{text: text, err: err}
}

// dialHint says what most likely keeps the socket from being opened.
func dialHint(name string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no such socket: is %s running? Does it --listen there?", name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nobody listens on the socket: is %s running?", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("you may not open the socket: run podctl as root, or as a user that %s admits", name)
	}
	return fmt.Sprintf("%v: is %s running? Is this its socket?", err, name)
}

// callError is a failed call, put into words.
type callError struct {
	text string
	err  error
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() error { return e.err }
