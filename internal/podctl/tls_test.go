package podctl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/porttest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// selfSigned writes a certificate for 127.0.0.1, which is its own authority, and its key.
func selfSigned(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	for path, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// serveTLS serves a fake at an address with mutual TLS; clients are those of one certificate.
func serveTLS(t *testing.T, f *fakePodconfigd, certFile, keyFile, clientFile string) (endpoint string) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	client, err := os.ReadFile(clientFile)
	if err != nil || !clients.AppendCertsFromPEM(client) {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	podconfigv1.RegisterPodConfigServiceServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return "tcp://" + listener.Addr().String()
}

// Over TCP both sides present certificates; the error for a bad one is one line that names the next check.
func TestTLS(t *testing.T) {
	serverCert, serverKey := selfSigned(t, "podconfigd.example")
	cert, key := selfSigned(t, "admin")
	otherCert, otherKey := selfSigned(t, "other")
	endpoint := serveTLS(t, &fakePodconfigd{
		sources: exampleSources(), scripts: [][]*message{{syncedAt(4)}}, watchErr: status.Error(codes.PermissionDenied, "no role"),
	}, serverCert, serverKey, cert)
	own := []string{"--tls-cert-file=" + cert, "--tls-private-key-file=" + key}
	ca := "--tls-ca-file=" + serverCert
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"good certificates", append([]string{"sources", ca}, own...), exitOK, ""},
		{"the name to check", append([]string{"sources", ca, "--tls-server-name=podconfigd.example"}, own...), exitOK, ""},
		{"another name", append([]string{"sources", ca, "--tls-server-name=else"}, own...), exitFailed, "not else: check --tls-cert-file"},
		{"an authority that isn't known", append([]string{"sources"}, own...), exitFailed, "unknown authority: check --tls-cert-file, --tls-ca-file"},
		{"no certificate", []string{"sources", ca}, exitFailed, "give --tls-cert-file and --tls-private-key-file"},
		{"a stranger's certificate", []string{"sources", ca, "--tls-cert-file=" + otherCert, "--tls-private-key-file=" + otherKey}, exitFailed,
			"lost podconfigd at tcp://"},
		{"no such file", append([]string{"sources", "--tls-ca-file=/nonexistent"}, own...), exitFailed, "/nonexistent"},
		{"no role", append([]string{"watch", ca}, own...), exitFailed, "no role: podconfigd's access file must give your certificate a role"},
	} {
		code, stdout, stderr := runAlone(append(tc.args, "--podconfig-endpoint="+endpoint)...)
		if code != tc.code || !strings.Contains(stderr, tc.stderr) || tc.stderr == "" && (stderr != "" || stdout == "") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %d and %q", tc.name, code, stdout, stderr, tc.code, tc.stderr)
		}
	}
}

// No process listens on a TCP address.
func TestTLSUnreachable(t *testing.T) {
	endpoint := fmt.Sprintf("tcp://127.0.0.1:%d", porttest.Reserve(t))
	cert, key := selfSigned(t, "admin")
	code, _, stderr := runAlone("sources", "--podconfig-endpoint="+endpoint, "--tls-cert-file="+cert, "--tls-private-key-file="+key)
	if want := "podctl: can't reach podconfigd at " + endpoint + ": no process listens on the address"; code != exitFailed || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit code %d, stderr %q; want %q", code, stderr, want)
	}
}
