package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrRefused is wrapped by errors of Apply and Configure if the request is invalid. Nothing was applied, and the
// Client can be used again.
var ErrRefused = errors.New("the request was refused")

// retry is the time between two attempts to connect.
const retry = 5 * time.Millisecond

// Client is a connection to a Source. It is safe for concurrent use; requests run one after the other.
type Client struct {
	conn net.Conn

	mu  sync.Mutex
	in  *json.Decoder
	out *json.Encoder
}

// Dial connects to the Source that listens at address: its path, or unix:// and the path. It retries until ctx ends,
// since the process may be starting.
func Dial(ctx context.Context, address string) (*Client, error) {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", strings.TrimPrefix(address, "unix://"))
		if err == nil {
			return &Client{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}, nil
		}
		starting := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
		if !starting {
			return nil, fmt.Errorf("dial the injected source at %s: %w", address, err)
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil, fmt.Errorf("dial the injected source at %s: %w; last attempt: %w", address, ctx.Err(), err)
		}
	}
}

// Apply merges the set, and returns once its changes are published. Its error wraps ErrRefused if the set is invalid;
// after any other error the connection is lost, and the set may have been applied.
func (c *Client) Apply(set Set) (Published, error) {
	published, err := c.ask(set)
	if err != nil {
		return Published{}, fmt.Errorf("apply a set of source %s: %w", set.Source, err)
	}
	return published, nil
}

// Configure makes these injected sources the configured ones, in order of priority, and returns when that is
// published. Its errors are like those of Apply.
func (c *Client) Configure(sources []string) (Published, error) {
	published, err := c.ask(configuration{Configure: append([]string{}, sources...)})
	if err != nil {
		return Published{}, fmt.Errorf("configure the sources %v: %w", sources, err)
	}
	return published, nil
}

func (c *Client) ask(request any) (Published, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answer struct {
		Published
		failure
	}
	err := c.out.Encode(request)
	if err == nil {
		err = c.in.Decode(&answer)
	}
	if err != nil {
		return Published{}, err
	}
	if answer.Error != "" {
		return Published{}, fmt.Errorf("%w: %s", ErrRefused, answer.Error)
	}
	return answer.Published, nil
}

// Close ends the connection. A request under way fails.
func (c *Client) Close() error { return c.conn.Close() }
