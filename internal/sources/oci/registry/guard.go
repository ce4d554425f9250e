package registry

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/pace"
)

const (
	// maxRequests and maxBytes are the most of one reading.
	maxRequests, maxBytes = 160, 32 << 20
	// maxHeader bounds the headers of a response, and maxAnswer its body unless the request has a limit of its own.
	maxHeader, maxAnswer = 256 << 10, 1 << 20
)

const (
	errRequests fault.Error = "the registry leads to too many requests"
	errBytes    fault.Error = "the registry sends too many bytes"
	errLarge    fault.Error = "an answer of the registry is too large"
	errScheme   fault.Error = "this leads to a URL that isn't HTTPS"
)

// plainError is why a request isn't sent. It isn't a fault.Error, because the failure of HTTPS before it is the one to
// report.
type plainError struct{}

func (plainError) Error() string { return "plain HTTP is used only on loopback, or with \"insecure\"" }

// guard is the transport of all requests of one client.
type guard struct {
	// own are the configured hosts with their ports, which get the credentials. plain are those of them that may be asked by
	// HTTP. local is set if the registry is on loopback.
	own, plain []string
	local      bool
	proxy      func(*http.Request) (*url.URL, error)
	clock      clock.PassiveClock

	// mu guards the state of the current reading: go-containerregistry may have two requests at once.
	mu      sync.Mutex
	reading *traffic
}

// traffic is what one reading has sent and received.
type traffic struct {
	// login is set if there are credentials.
	login           bool
	direct, proxied *http.Transport
	requests        int
	bytes           int64
	// at is the host that was asked last.
	at *url.URL
	// retryAfter is how long a server asked to wait.
	retryAfter time.Duration
}

// begin starts a reading. Its connections end when ctx does, or at end.
func (g *guard) begin(ctx context.Context, config *tls.Config, login bool) {
	t := &traffic{login: login}
	t.direct = &http.Transport{
		TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader,
	}
	t.proxied = t.direct.Clone()
	t.proxied.Proxy = g.proxy
	dial := func(control func(network, address string, c syscall.RawConn) error) func(context.Context, string, string) (net.Conn, error) {
		return func(_ context.Context, network, address string) (net.Conn, error) {
			// The context that the transport passes outlives the request's.
			dialer := net.Dialer{Control: control}
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = conn.Close() })
			}
			return conn, err
		}
	}
	t.proxied.DialContext = dial(nil)
	t.direct.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		loopback := g.local || g.isOwn(address)
		return dial(func(_, resolved string, _ syscall.RawConn) error { return checkResolved(resolved, loopback) })(ctx, network, address)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading = t
}

// checkResolved is checkAddress for an address with its port.
func checkResolved(resolved string, loopback bool) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return errNoAddress
	}
	return checkAddress(at.Addr(), loopback)
}

// isOwn reports whether an address with its port is one of a configured host.
func (g *guard) isOwn(address string) bool { return slices.Contains(g.own, strings.ToLower(address)) }

// now returns the current reading.
func (g *guard) now() *traffic {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reading
}

// RoundTrip is part of http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	t := g.now()
	if req.Body != nil {
		defer req.Body.Close()
	}
	sent, err := g.admit(t, req)
	if err != nil {
		return nil, err
	}
	transport := t.direct
	if proxy, err := g.proxy(sent); err != nil || proxy != nil {
		transport = t.proxied
	}
	resp, err := transport.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		asked := pace.RetryAfter(resp.Header, g.clock.Now())
		g.mu.Lock()
		t.retryAfter = max(t.retryAfter, asked)
		g.mu.Unlock()
	}
	limit, ok := req.Context().Value(limitKey{}).(int64)
	if !ok || resp.StatusCode != http.StatusOK {
		limit = maxAnswer
	}
	if resp.ContentLength > limit && req.Method != http.MethodHead {
		_ = resp.Body.Close()
		return nil, errLarge
	}
	resp.Body = &metered{ReadCloser: resp.Body, guard: g, traffic: t, left: limit}
	// The request before this package changed it: a redirect continues from there.
	resp.Request = req
	return resp, nil
}

// admit decides on a request. It returns the one to send, without what is for another host.
func (g *guard) admit(t *traffic, req *http.Request) (*http.Request, error) {
	g.mu.Lock()
	t.requests++
	over := t.requests > maxRequests
	t.at = req.URL
	g.mu.Unlock()
	address := addressOf(req.URL)
	isOwn := g.isOwn(address)
	switch {
	case over:
		return nil, errRequests
	case req.URL.Scheme == "http" && isOwn && !slices.Contains(g.plain, address):
		return nil, plainError{}
	case req.URL.Scheme != "https" && (req.URL.Scheme != "http" || !isOwn):
		return nil, errScheme
	}
	if err := checkHost(req.URL.Hostname(), g.local || isOwn); err != nil {
		return nil, err
	}
	sent := req.Clone(req.Context())
	// It would have the query of another URL, which may be a signature.
	sent.Header.Del("Referer")
	sent.Header.Del("Cookie")
	if !isOwn && t.login && (req.Method != http.MethodGet && req.Method != http.MethodHead || isBasic(req)) {
		return nil, &tokenHostError{host: fault.Secrets{}.Host(req.URL.Host)}
	}
	if !isOwn || g.isElsewhere(req) {
		sent.Header.Del("Authorization")
	}
	return sent, nil
}

// isBasic reports whether a request has a name and a password.
func isBasic(req *http.Request) bool {
	_, _, ok := req.BasicAuth()
	return ok
}

// isElsewhere reports whether another host has redirected to the request: that host has chosen its path.
func (g *guard) isElsewhere(req *http.Request) bool {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
		if !g.isOwn(addressOf(req.URL)) {
			return true
		}
	}
	return false
}

// addressOf returns the host and the port of a URL.
func addressOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// limitKey is the context key of the maximum size of a response, as int64.
type limitKey struct{}

// withLimit limits the sizes of the responses to requests with the context.
func withLimit(ctx context.Context, limit int64) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

// metered is a body with a limit of its own, and one of its reading.
type metered struct {
	io.ReadCloser
	guard   *guard
	traffic *traffic
	left    int64
}

// Read is part of io.Reader.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.guard.mu.Lock()
	m.traffic.bytes += int64(n)
	over := m.traffic.bytes > maxBytes
	m.guard.mu.Unlock()
	if m.left -= int64(n); m.left < 0 {
		return n, errLarge
	}
	if over {
		return n, errBytes
	}
	return n, err
}
