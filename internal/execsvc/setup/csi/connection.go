package csi

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"

	"github.com/podstream/podstream/internal/openfile"
)

const (
	// maxAnswer is the maximum size of an answer in bytes, gRPC's default.
	maxAnswer = 4 << 20
	// maxHeaders is the maximum size of an answer's headers, the status among them.
	maxHeaders = 64 << 10
	// window is the size of a connection's buffers for received data.
	window = 64 << 10
)

// connection is a connection to one file of a socket. The Driver's lock guards calls, retired and capabilities.
type connection struct {
	socket *openfile.Socket
	grpc   *grpc.ClientConn
	// calls is the number of calls under way. A retired connection is closed after the last one.
	calls   int
	retired bool
	// capabilities are those of the process behind the socket. Nil: it hasn't been asked.
	capabilities *Capabilities
}

// connect returns a connection to the socket, which it takes over.
func connect(socket *openfile.Socket) (*connection, error) {
	conn, err := grpc.NewClient("passthrough:///localhost", // The authority is localhost, as the kubelet's.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return socket.Dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithStatsHandler(answers{}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: .2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 20 * time.Second,
		}))
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	return &connection{socket: socket, grpc: conn}, nil
}

func (c *connection) close() {
	c.grpc.Close()
	_ = c.socket.Close()
}

// acquire returns the connection to the current file of the driver's socket, for one call.
func (d *Driver) acquire(method string) (*connection, error) {
	socket, err := d.endpoint.Open()
	if err != nil {
		return nil, &Error{Driver: d.name, Method: method, Code: codes.Unavailable, Message: fmt.Sprintf("connection error: desc = %q", err)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = socket.Close()
		return nil, &NotRegisteredError{d.name}
	}
	if d.conn != nil && d.conn.socket.Same(socket) {
		_ = socket.Close()
	} else {
		conn, err := connect(socket)
		if err != nil {
			return nil, fmt.Errorf("connect to the driver %s: %w", d.name, err)
		}
		d.retire()
		d.conn = conn
	}
	d.conn.calls++
	return d.conn, nil
}

// release ends a call.
func (d *Driver) release(c *connection) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.calls--; c.calls == 0 && c.retired {
		c.close()
	}
}

// retire gives up the current connection, if there is one. Calls that are under way continue: a driver that gets no answer through
// may still stage the volume.
func (d *Driver) retire() {
	if d.conn == nil {
		return
	}
	d.conn.retired = true
	if d.conn.calls == 0 {
		d.conn.close()
	}
	d.conn = nil
}

// close ends the use of the driver for new calls.
func (d *Driver) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.retire()
}

// answered is the key of a call's context under which an atomic.Bool is set when the peer has sent a status.
type answered struct{}

// answers is the stats.Handler that sets it.
type answers struct{}

func (answers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (answers) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.InTrailer); ok {
		if flag, ok := ctx.Value(answered{}).(*atomic.Bool); ok {
			flag.Store(true)
		}
	}
}

func (answers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (answers) HandleConn(context.Context, stats.ConnStats) {}

// node returns the stub of the node service.
func (c *connection) node() csipb.NodeClient { return csipb.NewNodeClient(c.grpc) }
