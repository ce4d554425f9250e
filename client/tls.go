package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/credentials"
)

// TLS names the files of a mutual TLS connection. They are read again for each new connection, so a renewed certificate needs no
// restart; if they can't be used then, for instance because only one of them has been replaced yet, the last good ones are.
type TLS struct {
	// CertFile and KeyFile are this consumer's certificate (with intermediate ones, if any) and its key, in PEM. Both are required.
	CertFile, KeyFile string
	// CAFile has the authorities that may sign podconfigd's certificate, in PEM. Empty: the system's.
	CAFile string
	// ServerName is the name that must stand in podconfigd's certificate. Empty: the endpoint's host.
	ServerName string
}

// TransportCredentials are gRPC's credentials from the files. It fails if they can't be used now. log gets a line when they can't
// later; nil discards.
func (t TLS) TransportCredentials(log *slog.Logger) (credentials.TransportCredentials, error) {
	if t.CertFile == "" || t.KeyFile == "" {
		return nil, errors.New("tcp needs a certificate file and a key file for mutual TLS")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	good, err := t.load()
	if err != nil {
		return nil, err
	}
	return &reloading{files: t, log: log, good: good}, nil
}

// load reads the files.
func (t TLS) load() (credentials.TransportCredentials, error) {
	certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s and key %s: %w", t.CertFile, t.KeyFile, err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: t.ServerName,
		// Shown also to a podconfigd that asks for another authority's: it then says what it dislikes, not that there is none.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authorities: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the authorities: %s has no certificate in PEM", t.CAFile)
		}
	}
	return credentials.NewTLS(cfg), nil
}

// reloading are credentials that are read from their files at each handshake. It is safe for concurrent use.
type reloading struct {
	files TLS
	log   *slog.Logger

	mu   sync.Mutex
	good credentials.TransportCredentials
	// failure is the last one of reading the files, so that it is told once. Empty: they were good.
	failure string
}

// current are the credentials of the files as they are now, or the last good ones.
func (r *reloading) current() credentials.TransportCredentials {
	fresh, err := r.files.load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.good, r.failure = fresh, ""
		return fresh
	}
	if err.Error() != r.failure {
		r.failure = err.Error()
		r.log.Error("the certificates can't be used; connecting with those from before", "error", err)
	}
	return r.good
}

// ClientHandshake implements credentials.TransportCredentials.
func (r *reloading) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return r.current().ClientHandshake(ctx, authority, conn)
}

// ServerHandshake implements credentials.TransportCredentials. A client never calls it.
func (r *reloading) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a client's credentials")
}

// Info implements credentials.TransportCredentials. Its server name becomes the calls' authority.
func (r *reloading) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", ServerName: r.files.ServerName} //nolint:staticcheck // gRPC goes by it still.
}

// Clone implements credentials.TransportCredentials. There is nothing in it that one copy could change for another.
func (r *reloading) Clone() credentials.TransportCredentials { return r }

// OverrideServerName implements credentials.TransportCredentials. TLS.ServerName is the one way to do it.
func (r *reloading) OverrideServerName(string) error {
	return errors.New("the server name is set with the files")
}
