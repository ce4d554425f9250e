package podctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client"
)

// daemon is the endpoint of podconfigd or podexecd.
type daemon struct {
	name     string
	endpoint endpoint
	tls      *client.TLS // for a TCP endpoint
	// context is the context that the endpoint is of. Empty: it is of none.
	context string
	// fromEnvironment is set if an environment variable gives the endpoint.
	fromEnvironment bool
}

// at returns the endpoint, with its context.
func (d daemon) at() string {
	if d.context != "" {
		return fmt.Sprintf("%s (context %s)", &d.endpoint, d.context)
	}
	return d.endpoint.String()
}

// connection is a gRPC connection to a daemon that keeps the error of the last attempt to connect.
type connection struct {
	*grpc.ClientConn
	daemon daemon

	mu      sync.Mutex
	dialErr error // of the last attempt; nil after a success
}

// heldOpen are the options of a connection whose calls may be silent for as long as both ends live. gRPC's own windows would grow to
// 16 MiB for each stream that podctl's user doesn't read.
var heldOpen = []grpc.DialOption{
	grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	grpc.WithInitialWindowSize(256 << 10), grpc.WithInitialConnWindowSize(1 << 20),
}

// connect returns a connection. The first call opens it, and reports a failure.
func (d daemon) connect(userAgent string, more ...grpc.DialOption) (*connection, error) {
	if d.endpoint == (endpoint{}) {
		return nil, fmt.Errorf("context %s has no endpoint of %s: its %sEndpoint isn't set in podctl.yaml", d.context, d.name, strings.TrimSuffix(d.name, "d"))
	}
	c := &connection{daemon: d}
	target, options, err := c.transport()
	if err != nil {
		return nil, fmt.Errorf("connect to %s at %s: %w", d.name, d.at(), err)
	}
	options = append(options, grpc.WithContextDialer(c.dial), grpc.WithUserAgent(userAgent))
	conn, err := grpc.NewClient(target, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s at %s: %w", d.name, d.at(), err)
	}
	c.ClientConn = conn
	return c, nil
}

// transport returns the daemon's gRPC target, and the protection of the connection: the socket's permissions and
// SO_PEERCRED, or mutual TLS.
func (c *connection) transport() (target string, options []grpc.DialOption, err error) {
	if c.daemon.endpoint.address == "" {
		return "passthrough:///" + c.daemon.name, []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		}, nil
	}
	if c.daemon.tls.CertFile == "" || c.daemon.tls.KeyFile == "" {
		return "", nil, errors.New("over tcp podctl needs a certificate: give --tls-cert-file and --tls-private-key-file")
	}
	creds, err := c.daemon.tls.TransportCredentials(nil)
	if err != nil {
		return "", nil, err
	}
	return "passthrough:///" + c.daemon.endpoint.address, []grpc.DialOption{
		grpc.WithTransportCredentials(handshakes{creds, c}),
	}, nil
}

// dial ignores the address: gRPC can't parse every path back.
func (c *connection) dial(ctx context.Context, _ string) (net.Conn, error) {
	network, address := "unix", c.daemon.endpoint.path
	if c.daemon.endpoint.address != "" {
		network, address = "tcp", c.daemon.endpoint.address
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	c.tried(err)
	return conn, err
}

// tried records the result of the last attempt to connect.
func (c *connection) tried(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialErr = err
}

// handshakes are credentials that record on the connection why a handshake failed.
type handshakes struct {
	credentials.TransportCredentials
	connection *connection
}

// errHandshake: the daemon was reached, but one side rejected the other's certificate.
var errHandshake = errors.New("the TLS handshake failed")

// ClientHandshake implements credentials.TransportCredentials.
func (h handshakes) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if err != nil {
		h.connection.tried(fmt.Errorf("%w: %w", errHandshake, err))
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.connection}
}

// explain turns the error of a call into one that names the endpoint and the next check. status.Code still finds the
// gRPC code.
func (c *connection) explain(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	dialErr := c.dialErr
	c.mu.Unlock()

	name, at := c.daemon.name, c.daemon.at()
	st := status.Convert(err)
	var text string
	switch st.Code() {
	case codes.Unavailable:
		if dialErr == nil {
			text = fmt.Sprintf("lost %s at %s: %s (was it stopped? look at its log)", name, at, st.Message())
			break
		}
		text = fmt.Sprintf("can't reach %s at %s: %s", name, at, c.daemon.dialHint(dialErr))
	case codes.DeadlineExceeded:
		text = fmt.Sprintf("%s at %s didn't answer in time: look at its log, or give it longer with --request-timeout", name, at)
	case codes.PermissionDenied, codes.Unauthenticated:
		text = fmt.Sprintf("%s at %s refuses you: %s: %s", name, at, st.Message(), c.daemon.admission())
	case codes.Unimplemented:
		text = fmt.Sprintf("what listens at %s doesn't know this call: %s: is it %s, and not older than podctl?", at, st.Message(), name)
	default:
		text = fmt.Sprintf("%s at %s: %s: %s", name, at, st.Code(), st.Message())
	}
	return &callError{text: text, err: err}
}

// admission returns the advice for a refused caller.
func (d daemon) admission() string {
	if d.endpoint.address != "" {
		return fmt.Sprintf("%s's access file must give your certificate a role", d.name)
	}
	return fmt.Sprintf("run podctl as root, or as a user that %s admits", d.name)
}

// dialHint returns the most likely reason for a failed connection.
func (d daemon) dialHint(err error) string {
	place := "socket"
	if d.endpoint.address != "" {
		place = "address"
	}
	switch {
	case errors.Is(err, errHandshake):
		return fmt.Sprintf("%v: check --tls-cert-file, --tls-ca-file and --tls-server-name", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no such socket: is %s running? Does it --listen there?", d.name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no process listens on the %s: is %s running?", place, d.name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("you may not open the socket: %s", d.admission())
	}
	return fmt.Sprintf("%v: is %s running? Is this its %s?", err, d.name, place)
}

// callError is a failed call with its explanation.
type callError struct {
	text string
	err  error
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() error { return e.err }
