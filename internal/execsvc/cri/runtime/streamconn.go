package runtime

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// goodbye is how long the closing handshake of a connection may take.
const goodbye = time.Second

// maxOpening bounds the streams of all connections that the runtime hasn't answered. The wait for an answer can't be
// ended, so that calls whose callers have gone would add up while the runtime doesn't answer.
const maxOpening = 256

// streamTransport makes one connection to the runtime's streaming server. Soon after the end of ctx it closes the
// connection.
type streamTransport struct {
	*streamspdy.SpdyRoundTripper

	ctx     context.Context //nolint:containedctx // Its methods are those of interfaces without one.
	opening chan struct{}
	// result is set once the runtime has sent something on the stream of results.
	result atomic.Bool

	mu sync.Mutex
	// conn is nil until it is connected.
	conn net.Conn
}

func (r *Runtime) streamTransport(ctx context.Context) (*streamTransport, error) {
	t := &streamTransport{ctx: ctx, opening: r.opening}
	var err error
	t.SpdyRoundTripper, err = streamspdy.NewRoundTripperWithConfig(streamspdy.RoundTripperConfig{PingPeriod: pingPeriod, UpgradeTransport: &http.Transport{
		DialContext: t.dial,
		// The server is on this machine and accepts any client, so a certificate would prove nothing.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // See above.
	}})
	return t, err
}

func (t *streamTransport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn = &closedOnce{conn, sync.OnceValue(conn.Close)}
	t.mu.Lock()
	t.conn = conn
	t.mu.Unlock()
	// The executor sends a closing handshake before it closes a connection. Behind a blocked write that would never end.
	context.AfterFunc(t.ctx, func() { time.AfterFunc(goodbye, t.cut) })
	return conn, nil
}

// cut closes the connection without a handshake.
func (t *streamTransport) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != nil {
		_ = t.conn.Close()
	}
}

// closedOnce is a connection whose Close may be called again. SPDY waits a second for a reader of the error otherwise.
type closedOnce struct {
	net.Conn

	close func() error
}

// Close implements net.Conn.
func (c *closedOnce) Close() error { return c.close() }

// NewConnection implements httpstream.UpgradeRoundTripper.
func (t *streamTransport) NewConnection(resp *http.Response) (httpstream.Connection, error) {
	conn, err := t.SpdyRoundTripper.NewConnection(resp)
	if err != nil {
		return nil, err
	}
	return &streamConn{Connection: conn, transport: t}, nil
}

// streamConn is a connection that waits for the runtime's answers until its transport's ctx ends.
type streamConn struct {
	httpstream.Connection

	transport *streamTransport

	mu sync.Mutex
	// pending are the requests that the runtime hasn't answered. closing is set if Close was called while there were any.
	pending int
	closing bool
}

// Close implements httpstream.Connection. The handshake waits for the answers to requests: after it there are none, and
// the wait for one would keep its place.
func (c *streamConn) Close() error {
	c.mu.Lock()
	c.closing = true
	pending := c.pending
	c.mu.Unlock()
	if pending > 0 {
		return nil
	}
	return c.Connection.Close()
}

// answered ends a request.
func (c *streamConn) answered() {
	c.mu.Lock()
	c.pending--
	last := c.closing && c.pending == 0
	c.mu.Unlock()
	if last {
		_ = c.Connection.Close()
	}
}

// CreateStream implements httpstream.Connection. The goroutine that waits for the answer has a place in opening. If the
// runtime doesn't answer before goodbye has passed, it ends 30 s after the request, as the connection has it: closing that
// doesn't end the wait.
func (c *streamConn) CreateStream(headers http.Header) (httpstream.Stream, error) {
	ctx, opening := c.transport.ctx, c.transport.opening
	select {
	case opening <- struct{}{}:
	case <-ctx.Done():
		// There is nothing to end in good order. With it, calls whose callers have gone would keep sockets for a while.
		c.transport.cut()
		return nil, ctx.Err()
	}
	type result struct {
		stream httpstream.Stream
		err    error
	}
	answered := make(chan result, 1)
	headers = headers.Clone()
	c.mu.Lock()
	c.pending++
	c.mu.Unlock()
	go func() {
		defer func() { <-opening }()
		stream, err := c.Connection.CreateStream(headers)
		answered <- result{stream, err}
		c.answered()
	}()
	select {
	case r := <-answered:
		return withResult(r.stream, headers, &c.transport.result), r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
