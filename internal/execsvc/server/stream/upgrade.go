package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// newTransport connects to the runtime's streaming server. That is on this machine and speaks to whoever comes, so a certificate would
// prove nothing. A connection is for one request.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}, //nolint:gosec // See above.
		ResponseHeaderTimeout: 30 * time.Second,
		DisableKeepAlives:     true,
		DisableCompression:    true,
		Protocols:             http1(),
	}
}

// http1 is the one version in which a connection becomes another protocol's.
func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// passedOn are the header fields that make a request one for another protocol. No others go to the runtime: it has no use for the caller's
// credentials.
func passedOn(name string) bool {
	switch name {
	case "Upgrade", "X-Stream-Protocol-Version":
		return true
	}
	return strings.HasPrefix(name, "Sec-Websocket-")
}

// upgradeRequired refuses a request that doesn't ask for another protocol, or can't have it.
func upgradeRequired(r *http.Request) error {
	connection := strings.ToLower(strings.Join(r.Header.Values("Connection"), ","))
	if r.ProtoMajor != 1 || r.Header.Get("Upgrade") == "" || !strings.Contains(connection, "upgrade") {
		return fail(http.StatusBadRequest, "Upgrade request required")
	}
	return nil
}

// connect asks the runtime's streaming server for the protocol that the header asks for, and returns the connection and what the server
// said. The error is a failure with the server's own words if it refused.
func (h *Handler) connect(ctx context.Context, method string, u *url.URL, header http.Header) (io.ReadWriteCloser, *http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the container runtime's streams: %w", err)
	}
	request.Header.Set("Connection", "Upgrade")
	for name, values := range header {
		if passedOn(name) {
			request.Header[name] = values
		}
	}
	response, err := h.runtime.RoundTrip(request)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the container runtime's streams: %w", err)
	}
	connection, ok := response.Body.(io.ReadWriteCloser)
	if response.StatusCode == http.StatusSwitchingProtocols && ok &&
		strings.EqualFold(response.Header.Get("Upgrade"), request.Header.Get("Upgrade")) {
		return connection, response, nil
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < http.StatusBadRequest {
		return nil, nil, fail(http.StatusBadGateway, "the container runtime's streaming server answers %s", response.Status)
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return nil, nil, fail(response.StatusCode, "%s", text)
}

// pass lets the caller speak to the runtime as it asked to, without looking at what they say.
func (h *Handler) pass(w http.ResponseWriter, r *http.Request, u *url.URL) error {
	backend, response, err := h.connect(r.Context(), r.Method, u, r.Header) //nolint:bodyclose // It is the backend.
	if err != nil {
		return err
	}
	caller, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = backend.Close()
		return fmt.Errorf("take over the connection: %w", err)
	}
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 %s\r\n", response.Status)
	_ = response.Header.Write(&head)
	head.WriteString("\r\n")
	splice(r.Context(), &callerConn{caller, buffered.Reader}, backend, head.String(), h.cfg.IdleTimeout)
	return nil
}

// callerConn is a connection whose first bytes the HTTP server has read already.
type callerConn struct {
	net.Conn
	reader *bufio.Reader
}

// Read implements io.Reader.
func (c *callerConn) Read(p []byte) (int, error) {
	if c.reader.Buffered() > 0 {
		return c.reader.Read(p[:min(len(p), c.reader.Buffered())])
	}
	return c.Conn.Read(p)
}

// CloseWrite tells the caller that there is nothing more to come.
func (c *callerConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
