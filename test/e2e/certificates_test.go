package e2e

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/certtest"
)

func (e *exposed) tlsPath(name string) string { return filepath.Join(e.dir, "tls", name) }

func (e *exposed) tlsFile(name string, data []byte) { certtest.WriteFile(e.t, e.tlsPath(name), data) }

func (e *exposed) serverCertificate(ca *certtest.CA) {
	certificate, key := ca.Issue(certtest.Request{Server: true})
	e.tlsFile("server.key", key)
	e.tlsFile("server.pem", certificate)
}

// clientFiles issues a certificate for a client and writes it, with its key, to the files of the returned TLS.
func (e *exposed) clientFiles(ca *certtest.CA, name string) client.TLS {
	certificate, key := ca.Issue(certtest.Request{CommonName: name})
	e.tlsFile(name+".key", key)
	e.tlsFile(name+".pem", certificate)
	return client.TLS{CertFile: e.tlsPath(name + ".pem"), KeyFile: e.tlsPath(name + ".key"), CAFile: e.tlsPath("clients.pem")}
}

// turnedAway fails unless a client with that configuration is rejected in the handshake, for that reason.
func (e *exposed) turnedAway(t *testing.T, what string, cfg *tls.Config, reason string) {
	t.Helper()
	_, err := listReferences(t.Context(), e.remote(credentials.NewTLS(cfg), "127.0.0.1"))
	refusal(t, what, err, codes.Unavailable, "")
	// gRPC writes before it reads, so the write may fail before it has read the reason.
	cfg.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", e.tcp, cfg)
	if err == nil {
		defer conn.Close()
		check(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: the handshake ends with %v; want %q", what, err, reason)
	}
}

// serverSerial returns the serial number of podconfigd's present certificate.
func serverSerial(t *testing.T, e *exposed) string {
	t.Helper()
	conn, err := tls.Dial("tcp", e.tcp, e.ca.Client(e.ca, certtest.Request{CommonName: "agent"}))
	check(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
