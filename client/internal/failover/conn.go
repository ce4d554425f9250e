package failover

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Config configures a Conn.
type Config struct {
	// Endpoints are where podconfigds may be. At least one is required.
	Endpoints []Endpoint
	// Listed has the Endpoints preferred in their order. Otherwise they have none, and clients spread over them.
	Listed bool
	// ReturnAfter is the age at which a connection to a server that isn't the preferred one is replaced, if the
	// preferred one is SERVING then; each connection adds up to half of it at random. Zero or less means never. Below 4 min,
	// the interval of the checks, and the time for which a server that was left is tried last, are shorter in proportion.
	ReturnAfter time.Duration
	// Key determines the order of this client. Required.
	Key string
	// Service is the service in grpc.health.v1 that a healthy server has. Required.
	Service string
	// Dial returns a connection to a candidate, which isn't established yet. Required.
	Dial func(Candidate) (*grpc.ClientConn, error)
	// Lookup returns the addresses of a host. Required.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Logger receives a line for each selection, and for each server that is left. Required.
	Logger *slog.Logger
}

const (
	// suspectTime is how long a server that was left is tried last. It is shorter if Config.ReturnAfter is below fullAge.
	suspectTime = time.Minute
	// fullAge is the shortest Config.ReturnAfter with which the times of this package are as they are without one.
	fullAge = 4 * time.Minute
)

// scaled returns d, or less in proportion if connections are to be replaced at an age below fullAge: an age isn't kept
// otherwise. The result is at least the hundredth part.
func scaled(d, age time.Duration) time.Duration {
	if age <= 0 || age >= fullAge {
		return d
	}
	return max(time.Duration(float64(d)*age.Seconds()/fullAge.Seconds()), d/100)
}

// errClosed is the error of calls after Close.
var errClosed = status.Error(codes.Canceled, "the client connection is closing")

// Conn is a connection to one of several podconfigds. It is safe for concurrent use.
type Conn struct {
	cfg  Config
	book *book
	// interval and suspicion are checkInterval and suspectTime for the configured age.
	interval, suspicion time.Duration

	// ctx ends with Close.
	ctx    context.Context //nolint:containedctx // It is the lifetime of the Conn.
	cancel context.CancelFunc
	// selecting holds a token while one caller selects a candidate.
	selecting chan struct{}
	running   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	started bool
	current *link
	// several is set if there was more than one candidate when they were last looked up.
	several bool
	// suspects are the servers that were left or didn't answer, by Candidate.String, with the time of that.
	suspects map[string]time.Time
	// behind are those of them that are behind this client. They are tried after the others.
	behind map[string]time.Time
}

// link is a connection to one candidate.
type link struct {
	Candidate
	conn *grpc.ClientConn
	// moved is closed when the client leaves a connection that works.
	moved chan struct{}
}

var _ grpc.ClientConnInterface = (*Conn)(nil)

// New returns a Conn, which isn't connected.
func New(cfg Config) *Conn {
	ctx, cancel := context.WithCancel(context.Background())
	return &Conn{
		cfg: cfg, ctx: ctx, cancel: cancel, selecting: make(chan struct{}, 1), suspects: map[string]time.Time{},
		behind: map[string]time.Time{}, interval: scaled(checkInterval, cfg.ReturnAfter), suspicion: scaled(suspectTime, cfg.ReturnAfter),
		book: &book{endpoints: cfg.Endpoints, listed: cfg.Listed, key: cfg.Key, lookup: cfg.Lookup, known: map[string][]netip.Addr{}},
	}
}

// Connected reports whether there is an established connection.
func (c *Conn) Connected() bool {
	l := c.now()
	return l != nil && l.conn.GetState() == connectivity.Ready
}

// Close closes the connection, which ends all calls, and waits for the goroutine.
func (c *Conn) Close() error {
	c.mu.Lock()
	l := c.current
	c.closed, c.current = true, nil
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	if l == nil {
		return nil
	}
	return l.conn.Close()
}

func (c *Conn) now() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// get returns the current connection, or selects one.
func (c *Conn) get(ctx context.Context) (*link, error) {
	if l := c.now(); l != nil {
		return l, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	select {
	case c.selecting <- struct{}{}:
		defer func() { <-c.selecting }()
	case <-ctx.Done():
		return nil, c.endOf(ctx)
	}
	if l := c.now(); l != nil {
		return l, nil
	}
	l, err := c.choose(ctx)
	if ctx.Err() != nil && err != nil {
		return nil, c.endOf(ctx)
	}
	if err != nil {
		return nil, err
	}
	if !c.use(l, nil) {
		_ = l.conn.Close()
		return nil, errClosed
	}
	return l, nil
}

func (c *Conn) endOf(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return errClosed
	}
	return status.FromContextError(ctx.Err()).Err()
}

// use makes l the current connection if that is still old. Otherwise it returns false.
func (c *Conn) use(l, old *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.current != old {
		return false
	}
	c.current = l
	if (c.several || c.cfg.ReturnAfter > 0 && c.book.varies()) && !c.started {
		c.started = true
		c.running.Go(c.supervise)
	}
	return true
}

// move replaces the connection old, which works, by l.
func (c *Conn) move(old, l *link, reason string) {
	if !c.use(l, old) {
		_ = l.conn.Close()
		return
	}
	c.cfg.Logger.Info("moving to another podconfigd", "from", old.String(), "to", l.String(), "reason", reason)
	close(old.moved)
	_ = old.conn.Close()
}

// leave gives up a connection that doesn't work, so that the next call selects another.
func (c *Conn) leave(l *link, err error) {
	c.mu.Lock()
	left, several := c.current == l, c.several
	if left {
		c.current = nil
	}
	c.mu.Unlock()
	if !left {
		return
	}
	if several {
		c.cfg.Logger.Log(c.ctx, c.level(l, slog.LevelWarn), "leaving a podconfigd", "from", l.String(), "error", err)
	}
	c.suspect(l)
	_ = l.conn.Close()
}

// failed gives up a connection on which a call failed. The only candidate's is kept while it is established.
func (c *Conn) failed(l *link, err error) {
	if c.Several() || l.conn.GetState() != connectivity.Ready {
		c.leave(l, err)
	}
}

// Fail gives up the current connection, whose server sent what this client must not apply. If there are several servers,
// that one is tried last for that time, also if others break meanwhile.
func (c *Conn) Fail(err error) {
	l := c.now()
	if l == nil {
		return
	}
	c.mu.Lock()
	c.behind[l.String()] = time.Now()
	c.mu.Unlock()
	c.failed(l, err)
}

// Reconnect gives up the current connection, if there is one.
func (c *Conn) Reconnect() {
	if l := c.now(); l != nil {
		c.leave(l, errReconnect)
	}
}

var errReconnect = errors.New("its streams are of no use")

// suspect has the server tried last for suspectTime.
func (c *Conn) suspect(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspects[l.String()] = time.Now()
}

// level returns the level, or that of debugging for a server that was left recently: a client that each server refuses
// goes from one to the next.
func (c *Conn) level(l *link, level slog.Level) slog.Level {
	if c.suspectSince(l.Candidate).IsZero() {
		return level
	}
	return slog.LevelDebug
}

// suspectSince returns when the server was left or didn't answer, or the zero time if that was long ago or never.
func (c *Conn) suspectSince(candidate Candidate) time.Time { return c.lately(c.suspects, candidate) }

func (c *Conn) lately(servers map[string]time.Time, candidate Candidate) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, since := range servers {
		if time.Since(since) > c.suspicion {
			delete(servers, name)
		}
	}
	return servers[candidate.String()]
}

// later compares two candidates by when they are tried: servers that aren't suspects come first.
func (c *Conn) later(x, y Candidate) int {
	return cmp.Or(c.lately(c.behind, x).Compare(c.lately(c.behind, y)), c.suspectSince(x).Compare(c.suspectSince(y)))
}

// jittered returns d, lengthened at random by up to half.
func jittered(d time.Duration) time.Duration { return d + rand.N(d/2+1) } //nolint:gosec // It spreads clients.
