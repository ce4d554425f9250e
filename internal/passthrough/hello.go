package passthrough

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	maxHelloBytes = 16 << 10
	helloTimeout  = 10 * time.Second
	// extensionECH is the extension encrypted_client_hello of RFC 9849.
	extensionECH = 0xfe0d
)

var (
	errParsed = errors.New("the ClientHello is complete")
	errLarge  = errors.New("the ClientHello is too large")
)

// recorder is a connection for crypto/tls that records what is read, up to a bound, and drops what is written.
type recorder struct {
	net.Conn
	read []byte
}

func (r *recorder) Read(p []byte) (int, error) {
	free := maxHelloBytes - len(r.read)
	if free == 0 {
		return 0, errLarge
	}
	n, err := r.Conn.Read(p[:min(len(p), free)])
	r.read = append(r.read, p[:n]...)
	return n, err
}

func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorder) Close() error                { return nil }

// readHello returns the server name of a ClientHello in lower case and all bytes read. If it fails, reason is set.
func readHello(ctx context.Context, conn net.Conn) (name string, read []byte, reason string) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return "", nil, ReasonClosed
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) }) //nolint:errcheck // closed then.
	defer stop()
	rec := &recorder{Conn: conn}
	var ech bool
	err := tls.Server(rec, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ech = strings.ToLower(h.ServerName), slices.Contains(h.Extensions, extensionECH)
		return nil, errParsed
	}}).Handshake() //nolint:noctx // the deadline of conn bounds it.
	var timeout net.Error
	switch {
	case errors.Is(err, errParsed) && ech:
		return "", nil, ReasonECH
	case errors.Is(err, errParsed) && name == "":
		return "", nil, ReasonNoName
	case errors.Is(err, errParsed):
		if !stop() || conn.SetReadDeadline(time.Time{}) != nil {
			return "", nil, ReasonTimeout
		}
		return name, rec.read, ""
	case errors.Is(err, errLarge):
		return "", nil, ReasonLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return "", nil, ReasonTimeout
	case errors.Is(err, io.EOF):
		return "", nil, ReasonClosed
	}
	return "", nil, ReasonHello
}
