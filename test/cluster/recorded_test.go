package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// gate stops all reading and writing of a node's connections, as SIGSTOP does.
type gate struct {
	mu    sync.Mutex
	since time.Time
	// open is closed while the node runs.
	open chan struct{}
	// stalled is called with the beginning of each stop when it ends.
	stalled func(from time.Time)
}

func newGate() *gate {
	g := &gate{open: make(chan struct{}), stalled: func(time.Time) {}}
	close(g.open)
	return g
}

func (g *gate) set(run bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch stopped := !g.since.IsZero(); {
	case run && stopped:
		close(g.open)
		g.stalled(g.since)
		g.since = time.Time{}
	case !run && !stopped:
		g.open, g.since = make(chan struct{}), time.Now()
	}
}

// pass waits until the node runs, or done is closed.
func (g *gate) pass(done <-chan struct{}) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	case <-done:
	}
}

func (g *gate) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &gatedConn{Conn: conn, gate: g, closed: make(chan struct{})}, nil
}

type gatedConn struct {
	net.Conn
	gate   *gate
	once   sync.Once
	closed chan struct{}
}

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.pass(c.closed)
	return n, err
}

func (c *gatedConn) Write(b []byte) (int, error) {
	c.gate.pass(c.closed)
	return c.Conn.Write(b)
}

func (c *gatedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// stormNode is a node of the storm.
type stormNode struct {
	*hollow
	*gate
	config client.Config

	mu sync.Mutex
	// recorder is nil if the node isn't in the sample. recording is that of its last stream.
	recorder  *robustness.ConsumerRecorder
	recording *robustness.StreamRecorder
	// broke is the last error that ended a stream, and brokeAt the time of that.
	broke   error
	brokeAt time.Time
}

func (s *storm) newNode(name string, files client.TLS, endpoints []string, recorded bool) *stormNode {
	n := &stormNode{hollow: newHollow(name), gate: newGate()}
	options := []grpc.DialOption{grpc.WithContextDialer(n.dial)}
	if recorded {
		n.recorder = s.recorder.Consumer(name)
		n.stalled = func(from time.Time) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.recording != nil {
				n.recording.Stall(from)
			}
		}
		options = append(options, grpc.WithChainStreamInterceptor(s.recordFor(n)))
	}
	n.config = client.Config{
		Endpoint: strings.Join(endpoints, ","), SpreadKey: name, Heartbeat: 2 * time.Second, DialOptions: options,
		TLS: files, OnBreak: func(err error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.broke, n.brokeAt = err, time.Now()
		},
	}
	return n
}

// errRestarted is the error of a stream of which it isn't known to which start of the gateway it belongs.
var errRestarted = status.Error(codes.Unavailable, "the gateway restarted meanwhile")

// recordFor records the node's streams of pods.
func (s *storm) recordFor(n *stormNode) grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if method != podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName {
			return streamer(ctx, desc, cc, method, opts...)
		}
		at := strings.TrimPrefix(cc.Target(), "passthrough:///")
		before := s.lifeAt(at)
		ctx, cancel := context.WithCancel(ctx)
		stream, err := streamer(ctx, desc, cc, method, opts...)
		if err == nil && s.lifeAt(at) != before {
			err = errRestarted
		}
		if err != nil {
			cancel()
			return nil, err
		}
		return &recordedStream{ClientStream: stream, node: n, life: before, cancel: cancel}, nil
	}
}

type recordedStream struct {
	grpc.ClientStream
	node   *stormNode
	life   int
	cancel context.CancelFunc
	record *robustness.StreamRecorder
}

func (r *recordedStream) SendMsg(m any) error {
	r.record = r.node.recorder.SubscribeTo(r.life, proto.CloneOf(m.(*podconfigv1.WatchPodUpdatesRequest)))
	r.node.mu.Lock()
	r.node.recording = r.record
	r.node.mu.Unlock()
	return r.ClientStream.SendMsg(m)
}

func (r *recordedStream) RecvMsg(m any) error {
	err := r.ClientStream.RecvMsg(m)
	switch {
	case err == nil:
		r.record.Receive(proto.CloneOf(m.(*podconfigv1.WatchPodUpdatesResponse)))
		return nil
	case !isBreak(err):
		r.record.End(err, false)
	}
	r.cancel()
	return err
}

// isBreak reports whether a stream broke, which is no fault of its gateway in a storm.
func isBreak(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Canceled || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)
}
