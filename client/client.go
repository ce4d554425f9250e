package client

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// DefaultEndpoint is where podconfigd listens if it isn't told otherwise.
const DefaultEndpoint = "unix:///run/podstream/podconfigd.sock"

// Config says whom to talk to.
type Config struct {
	// Endpoint is podconfigd's address, unix:///path or tcp://host:port. Empty means DefaultEndpoint.
	Endpoint string
	// TLS has the certificates for an endpoint tcp://host:port, which requires them. It isn't used for a Unix socket, where
	// podconfigd asks the kernel who is calling.
	TLS TLS
	// Consumer is the name that podconfigd knows this consumer by. Empty: the caller's identity, "uid:0" on a
	// Unix socket and the certificate's common name over TLS.
	Consumer string
	// Heartbeat is how often a quiet podconfigd shall give a sign of life; after three times that without one the stream is
	// taken for dead. Zero means 10 s; less than 1 s is taken as 1 s.
	Heartbeat time.Duration
	// Logger gets a line when the stream breaks and when it is back. Nil discards.
	Logger *slog.Logger
	// OnBreak is called each time that a stream breaks or can't be had and Watch is going to try again, with the error. It is
	// called from Watch's goroutine, which waits for it. Nil: nobody is told.
	OnBreak func(error)
	// DialOptions are added to the connection's own.
	DialOptions []grpc.DialOption
}

// ErrClosed is what Watch returns once its Client is closed.
var ErrClosed = errors.New("the client is closed")

// Client is a connection to podconfigd. It is safe for concurrent use; each Watch is a consumer of its own.
type Client struct {
	cfg  Config
	conn *grpc.ClientConn
	api  podconfigv1.PodConfigServiceClient

	closeOnce sync.Once
	closed    chan struct{}
}

// New returns a Client. It doesn't connect: the first call does. It fails on an endpoint that can't be understood, and on
// certificates that can't be read.
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
	target, options, err := dialing(cfg)
	if err != nil {
		return nil, fmt.Errorf("podconfigd endpoint %q: %w", cfg.Endpoint, err)
	}
	options = append(options,
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}))
	conn, err := grpc.NewClient(target, append(options, cfg.DialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("podconfigd endpoint %q: %w", cfg.Endpoint, err)
	}
	return &Client{
		cfg: cfg, conn: conn, api: podconfigv1.NewPodConfigServiceClient(conn), closed: make(chan struct{}),
	}, nil
}

// API is the service itself, for the calls that aren't streams.
func (c *Client) API() podconfigv1.PodConfigServiceClient { return c.api }

// Close ends the connection and every Watch on it: they return ErrClosed. Only the first Close does something.
func (c *Client) Close() error {
	var err error
	c.closeOnce.Do(func() {
		close(c.closed)
		err = c.conn.Close()
	})
	return err
}
