package podctl

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/porttest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// issue writes a new certificate and its key.
func issue(t *testing.T, ca *certtest.CA, r certtest.Request) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	cert, key := ca.Issue(r)
	certtest.WriteFile(t, certFile, cert)
	certtest.WriteFile(t, keyFile, key)
	return certFile, keyFile
}

// serveTLS serves a fake at an address with mutual TLS. The authority issues its certificate, and those of its clients.
func serveTLS(t *testing.T, f *fakePodconfigd, ca *certtest.CA, name string) (endpoint string) {
	t.Helper()
	cert, err := tls.X509KeyPair(ca.Issue(certtest.Request{CommonName: name, DNS: name, Server: true}))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
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
	authority := certtest.NewCA(t, "ours")
	caFile := filepath.Join(t.TempDir(), "ca")
	certtest.WriteFile(t, caFile, authority.PEM)
	cert, key := issue(t, authority, certtest.Request{CommonName: "admin"})
	otherCert, otherKey := issue(t, certtest.NewCA(t, "theirs"), certtest.Request{CommonName: "other"})
	endpoint := serveTLS(t, &fakePodconfigd{
		sources: exampleSources(), scripts: [][]*message{{syncedAt(4)}}, watchErr: status.Error(codes.PermissionDenied, "no role"),
	}, authority, "podconfigd.example")
	own := []string{"--tls-cert-file=" + cert, "--tls-private-key-file=" + key}
	ca := "--tls-ca-file=" + caFile
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
	cert, key := issue(t, certtest.NewCA(t, "ours"), certtest.Request{CommonName: "admin"})
	code, _, stderr := runAlone("sources", "--podconfig-endpoint="+endpoint, "--tls-cert-file="+cert, "--tls-private-key-file="+key)
	if want := "podctl: can't reach podconfigd at " + endpoint + ": no process listens on the address"; code != exitFailed || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit code %d, stderr %q; want %q", code, stderr, want)
	}
}
