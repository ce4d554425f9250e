package passthrough

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Reasons of refused connections.
const (
	ReasonHello   = "not_tls"
	ReasonTimeout = "hello_timeout"
	ReasonLarge   = "hello_too_large"
	ReasonClosed  = "closed"
	ReasonECH     = "encrypted_client_hello"
	ReasonNoName  = "no_server_name"
	ReasonUnknown = "unknown_server_name"
	ReasonDial    = "target_unreachable"
	ReasonLimit   = "too_many_connections"
	// ReasonDisplaced is of a connection whose ClientHello is incomplete, while a newer one has no place.
	ReasonDisplaced = "displaced"
)

const (
	dialTimeout = 10 * time.Second
	// halfClosed is the default of Config.HalfClosed.
	halfClosed = time.Minute
	// stalled is the default of Config.Stalled.
	stalled = 2 * time.Minute
)

// Config has what a Server is made of.
type Config struct {
	// Targets are the addresses (host:port) by server name.
	Targets map[string]string
	// MaxConnections bounds the connections in all, MaxPerAddress those of a client's IP address, or IPv6 network of 64
	// bits. An address also gets no more than are free, so that no number of them takes all.
	MaxConnections, MaxPerAddress int
	// MaxHellos bounds the connections in all that haven't sent a complete ClientHello, and a half of it those of an
	// address. A further one displaces the oldest of its address, or of all.
	MaxHellos int
	// HalfClosed is how long a connection stays after one side has sent its last byte. Default one minute.
	HalfClosed time.Duration
	// Stalled is how long a connection stays while a peer acknowledges or takes nothing of what is sent to it. Default
	// two minutes.
	Stalled time.Duration
	// Logger receives a line for a target that can't be reached, once a minute each. Nil discards.
	Logger *slog.Logger
	// Refused, if set, is called for each refused connection.
	Refused func(reason string)
}

// Server relays connections.
type Server struct {
	config  Config
	targets map[string]string
	metrics metrics
	places  places

	mu sync.Mutex
	// logged has, by server name, when its target couldn't be reached last.
	logged map[string]time.Time
}

// New checks c.
func New(c Config) (*Server, error) {
	s := &Server{config: c, targets: map[string]string{}, metrics: newMetrics(), places: newPlaces(c), logged: map[string]time.Time{}}
	s.config.HalfClosed, s.config.Stalled = cmp.Or(c.HalfClosed, halfClosed), cmp.Or(c.Stalled, stalled)
	if c.Logger == nil {
		s.config.Logger = slog.New(slog.DiscardHandler)
	}
	for name, target := range c.Targets {
		lower := strings.ToLower(name)
		if !isServerName(name) {
			return nil, fmt.Errorf("%q isn't a server name", name)
		}
		if host, port, err := net.SplitHostPort(target); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("the target %q of %s isn't HOST:PORT", target, name)
		}
		if _, ok := s.targets[lower]; ok {
			return nil, fmt.Errorf("%s has two targets", lower)
		}
		s.targets[lower] = target
		s.metrics.open.WithLabelValues(lower)
	}
	if c.MaxConnections <= 0 || c.MaxPerAddress <= 0 || c.MaxHellos <= 0 {
		return nil, errors.New("a limit isn't positive")
	}
	return s, nil
}

// isServerName reports whether a ClientHello can have the name: it is in ASCII, no IP address, and has no dot at its end.
func isServerName(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil || name == "" || strings.HasSuffix(name, ".") {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("*:/", r) })
}

// Serve relays the connections of l until ctx ends or l fails. It closes l and all connections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			select { // No file descriptor is free, for example.
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		p, ok := s.places.take(conn)
		if !ok {
			_ = conn.Close()
			s.refuse(ReasonLimit)
			continue
		}
		wg.Go(func() {
			reason := s.relay(ctx, p, conn)
			_ = conn.Close()
			s.places.give(p)
			if reason != "" {
				s.refuse(reason)
			}
		})
	}
}

func (s *Server) refuse(reason string) {
	s.metrics.refused.WithLabelValues(reason).Inc()
	if s.config.Refused != nil {
		s.config.Refused(reason)
	}
}

// logUnreachable logs that a target can't be reached, at most once a minute.
func (s *Server) logUnreachable(name string, err error) {
	s.mu.Lock()
	due := time.Since(s.logged[name]) >= time.Minute
	if due {
		s.logged[name] = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.config.Logger.Warn("the target of a TLS pass-through can't be reached; its clients' connections are closed, and they try again",
			"name", name, "target", s.targets[name], "error", err)
	}
}

// relay serves one connection, and returns why it is refused.
func (s *Server) relay(ctx context.Context, p *place, client net.Conn) string {
	name, hello, reason := readHello(ctx, client)
	if !s.places.helloRead(p) {
		return ReasonDisplaced
	}
	if reason != "" {
		return reason
	}
	target, ok := s.targets[name]
	if !ok {
		return ReasonUnknown
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}
	server, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		s.logUnreachable(name, err)
		return ReasonDial
	}
	defer func() { _ = server.Close() }()
	defer context.AfterFunc(ctx, func() { _ = client.Close(); _ = server.Close() })()
	bound(client, s.config.Stalled)
	bound(server, s.config.Stalled)
	if _, err := server.Write(hello); err != nil {
		return ReasonDial
	}
	open := s.metrics.open.WithLabelValues(name)
	open.Inc()
	defer open.Dec()
	var wg sync.WaitGroup
	s.metrics.bytes.WithLabelValues(name, toTarget).Add(float64(len(hello)))
	wg.Go(func() { s.metrics.bytes.WithLabelValues(name, toTarget).Add(float64(s.pipe(server, client))) })
	s.metrics.bytes.WithLabelValues(name, toClient).Add(float64(s.pipe(client, server)))
	wg.Wait()
	return ""
}

// pipe copies from one connection to the other, and closes the writing half at the end. The other direction then ends
// within Config.HalfClosed. If pipe fails, both end. It returns the number of bytes.
func (s *Server) pipe(to, from net.Conn) int64 {
	n, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
		_ = from.Close()
		return n
	}
	// The peer of from has sent its last byte. It may have closed its connection, which only a write to it would show. In
	// TLS both sides end together, so what the other side still sends is short.
	end := time.Now().Add(s.config.HalfClosed)
	if to.SetReadDeadline(end) != nil || from.SetWriteDeadline(end) != nil {
		_ = to.Close()
		_ = from.Close()
	}
	return n
}
