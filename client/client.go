package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/podstream/podstream/client/internal/failover"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// DefaultEndpoint is the Unix socket on which podconfigd listens by default.
const DefaultEndpoint = "unix:///run/podstream/podconfigd.sock"

// Config configures a Client. Its zero value connects to DefaultEndpoint.
type Config struct {
	// Endpoint is podconfigd's address, unix:///path or tcp://host:port, or up to 16 of one kind with commas between.
	// Empty means DefaultEndpoint. A host's name may have several addresses, which have no order. With several
	// addresses the client uses one of them, for all its streams: the first one in its order whose podconfigd has
	// read all its sources. It stays there until that one fails, or until it is not healthy and another one is.
	Endpoint string
	// Order is the order in which several endpoints are tried. Empty means Random.
	Order Order
	// ReturnAfter is the age at which a connection to an endpoint that isn't the preferred one is replaced, if the
	// preferred one is healthy then. Up to half of it is added at random. Zero means 10 min with the order Listed,
	// and 4 min with Random, where clients spread again by it after a podconfigd was away. Less than zero means never.
	ReturnAfter time.Duration
	// SpreadKey determines this client's order of the addresses of one host, and of all with the order Random.
	// Clients with different keys spread evenly; one that keeps its key prefers the same podconfigd after a restart.
	// Use the node's name. Empty means a random key for each New.
	SpreadKey string
	// TLS names the certificate files. It is required for tcp://host:port, and not used for a Unix socket, where
	// podconfigd reads the caller's user ID from the kernel.
	TLS TLS
	// Consumer is the name under which podconfigd lists this consumer. Empty means the caller's identity: "uid:0" on
	// a Unix socket, the certificate's common name over TLS.
	Consumer string
	// Heartbeat is the interval of podconfigd's heartbeats on a quiet stream. A stream without a message for three
	// intervals is broken. Zero means 10 s; less than 1 s means 1 s.
	Heartbeat time.Duration
	// Logger receives a line when a stream breaks, and when the consumer is up to date again. Nil discards them.
	Logger *slog.Logger
	// OnBreak is called, with the error, each time that a stream breaks or can't be opened and Watch or WatchObjects
	// is about to retry. It runs in the goroutine of that Watch, which waits for it. Nil means no call.
	OnBreak func(error)
	// DialOptions are passed to gRPC after the client's own options.
	DialOptions []grpc.DialOption

	// lookup returns the addresses of a host. Nil means the system's resolver.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// ErrClosed is the error of Watch and WatchObjects after Close.
var ErrClosed = errors.New("the client is closed")

// Client is a connection to podconfigd. It is safe for concurrent use. Each Watch is a separate consumer.
type Client struct {
	cfg  Config
	conn *failover.Conn
	api  podconfigv1.PodConfigServiceClient

	closeOnce sync.Once
	closed    chan struct{}
}

// New returns a Client. It doesn't connect: the first call does. It returns an error if the endpoint is not valid or
// the certificate files can't be read.
func New(cfg Config) (*Client, error) {
	if cfg.Endpoint == "" {
		cfg.Endpoint = DefaultEndpoint
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 10 * time.Second
	}
	cfg.Heartbeat = max(cfg.Heartbeat, time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	conn, err := connect(cfg, []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	})
	if err != nil {
		return nil, fmt.Errorf("podconfigd endpoint %q: %w", cfg.Endpoint, err)
	}
	return &Client{
		cfg: cfg, conn: conn, api: podconfigv1.NewPodConfigServiceClient(conn), closed: make(chan struct{}),
	}, nil
}

// API returns the gRPC client of the service, for the calls that aren't streams.
func (c *Client) API() podconfigv1.PodConfigServiceClient { return c.api }

// Close closes the connection. Every Watch and WatchObjects on it returns ErrClosed. Later calls do nothing and
// return nil.
func (c *Client) Close() error {
	var err error
	c.closeOnce.Do(func() {
		close(c.closed)
		err = c.conn.Close()
	})
	return err
}
