package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
)

// TLS names the files of a mutual TLS connection. They are read again for each new connection, so a renewed
// certificate needs no restart. If they can't be used then, for instance because only one of them has been replaced
// yet, the last good ones are used.
type TLS struct {
	// CertFile and KeyFile are this consumer's certificate (with intermediate ones, if any) and its key, in PEM. Both
	// are required.
	CertFile, KeyFile string
	// CAFile has the authorities that may sign podconfigd's certificate, in PEM. Empty means the system's
	// authorities.
	CAFile string
	// ServerName is the name that podconfigd's certificate must have. Empty means the endpoint's host.
	ServerName string
}

// TransportCredentials returns gRPC credentials that read the files at each handshake. It returns an error if the
// files can't be used now. log receives a line if they can't be used later; nil discards it.
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
	certificate, err := loadKeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s and key %s: %w", t.CertFile, t.KeyFile, err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: t.ServerName,
		// The certificate is sent also to a podconfigd that asks for another authority's: its error then names the
		// problem, rather than a missing certificate.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}
	if t.CAFile != "" {
		pem, err := readFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the certificate authorities: %s has no certificate in PEM", t.CAFile)
		}
	}
	return credentials.NewTLS(cfg), nil
}

func loadKeyPair(certFile, keyFile string) (tls.Certificate, error) {
	certificate, err := readFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// maxFile is the maximum size of a file in bytes. fileTimeout is the time limit for the writer of a pipe.
const maxFile = 1 << 20

var fileTimeout = 10 * time.Second

// readFile reads a file or a pipe. It doesn't wait for a writer to open the pipe, nor for the holder of a lease.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Regular files don't support a deadline, and need none.
	_ = f.SetReadDeadline(time.Now().Add(fileTimeout))
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, err
}

// reloading are credentials that are read from their files at each handshake. It is safe for concurrent use.
type reloading struct {
	files TLS
	log   *slog.Logger

	mu   sync.Mutex
	good credentials.TransportCredentials
	// failure is the last error of reading the files, so that it is logged once. Empty means that they were good.
	failure string
}

// current returns the credentials in the files, or the last good ones.
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
		r.log.Error("can't use the certificate files; using the last good certificates", "error", err)
	}
	return r.good
}

// ClientHandshake implements credentials.TransportCredentials.
func (r *reloading) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return r.current().ClientHandshake(ctx, authority, conn)
}

// ServerHandshake implements credentials.TransportCredentials. gRPC doesn't call it on a client.
func (r *reloading) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("client credentials can't serve")
}

// Info implements credentials.TransportCredentials. Its server name becomes the authority of the calls.
func (r *reloading) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", ServerName: r.files.ServerName} //nolint:staticcheck // gRPC goes by it still.
}

// Clone implements credentials.TransportCredentials. It returns r, which no caller can change.
func (r *reloading) Clone() credentials.TransportCredentials { return r }

// OverrideServerName implements credentials.TransportCredentials. It always fails: set TLS.ServerName instead.
func (r *reloading) OverrideServerName(string) error {
	return errors.New("set the server name in TLS.ServerName")
}
