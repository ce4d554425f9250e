package relay

import (
	"sync"

	"github.com/podstream/podstream/client"
)

// connection is the connection to the upstream that Run and RunObjects share, so that both have the same podconfigd if
// there are several. The first stream opens it, and it is closed once neither runs.
type connection struct {
	cfg Config

	mu     sync.Mutex
	users  int
	client *client.Client
}

// hold keeps the connection until release is called.
func (c *connection) hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	return c.release
}

func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 && c.client != nil {
		_ = c.client.Close()
		c.client = nil
	}
}

// open returns the connection. It returns an error if the certificates can't be read.
func (c *connection) open() (*client.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		opened, err := c.cfg.dial()
		if err != nil {
			return nil, err
		}
		c.client = opened
	}
	return c.client, nil
}

// renew has the next attempt connect again, after an upstream was of no use: the certificates may have changed, or
// another podconfigd may be better.
func (c *connection) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		c.client.Reconnect()
	}
}

// behind has the next attempt use another upstream, if there are several, as this one is behind.
func (c *connection) behind(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		c.client.Behind(err)
	}
}
