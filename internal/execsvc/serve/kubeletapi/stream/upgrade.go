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

// newTransport returns a transport to the runtime's streaming server. That is on this machine and accepts any
// client, so a certificate would prove nothing. Each connection serves one request.
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

// http1 is the only version in which a connection can change its protocol.
func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// passedOn reports whether a header field is part of a protocol upgrade. No others are sent to the runtime, which
// doesn't need the caller's credentials.
func passedOn(name string) bool {
	switch name {
	case "Upgrade", "X-Stream-Protocol-Version":
		return true
	}
	return strings.HasPrefix(name, "Sec-Websocket-")
}

// upgradeRequired returns an error for a request that isn't a supported upgrade.
func upgradeRequired(r *http.Request) error {
	connection := strings.ToLower(strings.Join(r.Header.Values("Connection"), ","))
	if r.ProtoMajor != 1 || r.Header.Get("Upgrade") == "" || !strings.Contains(connection, "upgrade") {
		return badRequest("Upgrade request required")
	}
	return nil
}

// connect requests the header's protocol from the runtime's streaming server, and returns the connection and the
// response. If the server refused, the error is a failure with its text.
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
		return nil, nil, badGateway("the container runtime's streaming server answers %s", response.Status)
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return nil, nil, answered(response.StatusCode, text)
}

// pass connects the caller to the runtime without reading the data.
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

// callerConn is a connection of which the HTTP server has read the first bytes already.
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

// CloseWrite ends the direction to the caller.
func (c *callerConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
