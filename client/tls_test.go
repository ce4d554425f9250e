package client_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/certtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// issue writes a certificate of the authority and the authority itself.
func issue(t *testing.T, ca *certtest.CA, name string) client.TLS {
	t.Helper()
	dir := t.TempDir()
	files := client.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), CAFile: filepath.Join(dir, "ca.crt")}
	cert, key := ca.Issue(certtest.Request{CommonName: name})
	write(t, files.CertFile, cert)
	write(t, files.KeyFile, key)
	write(t, files.CAFile, ca.PEM)
	return files
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// named is a podconfigd over TLS that ends each stream with its caller's certificate's name.
type named struct {
	podconfigv1.UnimplementedPodConfigServiceServer
}

func (named) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, s serverStream) error {
	p, _ := peer.FromContext(s.Context())
	return status.Error(codes.InvalidArgument, "you are "+p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName)
}

// serveTLS serves with mutual TLS until the test ends. The certificate is of that name.
func serveTLS(t *testing.T, ca *certtest.CA, name string) (endpoint string) {
	t.Helper()
	return serveTLSWith(t, ca, name, named{})
}

func serveTLSWith(t *testing.T, ca *certtest.CA, name string, api podconfigv1.PodConfigServiceServer) (endpoint string) {
	t.Helper()
	cert, err := tls.X509KeyPair(ca.Issue(certtest.Request{CommonName: name, DNS: name, Server: true}))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	podconfigv1.RegisterPodConfigServiceServer(server, api)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return "tcp://" + l.Addr().String()
}

// whoAmI returns the name that podconfigd sees, or the client's error.
func whoAmI(t *testing.T, cfg client.Config) string {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = c.Close() }()
	return call(t, c.API())
}

func call(t *testing.T, api podconfigv1.PodConfigServiceClient) string {
	t.Helper()
	stream, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	return err.Error()
}

// TestTLS: over TCP both sides present certificates, and both must be valid.
func TestTLS(t *testing.T) {
	ours, theirs := certtest.NewCA(t, "ours"), certtest.NewCA(t, "theirs")
	endpoint := serveTLS(t, ours, "podconfigd")
	good := issue(t, ours, "agent")
	with := func(change func(*client.TLS)) client.TLS {
		files := good
		change(&files)
		return files
	}
	garbage := filepath.Join(t.TempDir(), "garbage")
	write(t, garbage, []byte("garbage"))
	stranger := issue(t, theirs, "agent")
	for _, tc := range []struct {
		name  string
		files client.TLS
		want  string
	}{
		{"good certificates", good, "you are agent"},
		{"another name to check, which is right", with(func(f *client.TLS) { f.ServerName = "podconfigd" }), "you are agent"},
		{"another name to check, which is wrong", with(func(f *client.TLS) { f.ServerName = "other" }), "not other"},
		{"a podconfigd of another authority", with(func(f *client.TLS) { f.CAFile = stranger.CAFile }), "unknown authority"},
		{"a certificate of another authority", with(func(f *client.TLS) { f.CertFile, f.KeyFile = stranger.CertFile, stranger.KeyFile }), "Unavailable"},
		{"the system's authorities", with(func(f *client.TLS) { f.CAFile = "" }), "unknown authority"},
		{"no key", with(func(f *client.TLS) { f.KeyFile = "" }), "tcp needs a certificate file and a key file"},
		{"another one's key", with(func(f *client.TLS) { f.KeyFile = stranger.KeyFile }), "private key does not match"},
		{"no such file", with(func(f *client.TLS) { f.CAFile += "x" }), "ca.crtx: no such file"},
		{"authorities that aren't", with(func(f *client.TLS) { f.CAFile = garbage }), garbage + " has no certificate"},
	} {
		if got := whoAmI(t, client.Config{Endpoint: endpoint, TLS: tc.files}); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q; want %q", tc.name, got, tc.want)
		}
	}
}

// TestTLSRenewal: a new connection uses the present files, or the last good ones while they don't fit together.
func TestTLSRenewal(t *testing.T) {
	ours := certtest.NewCA(t, "ours")
	files := issue(t, ours, "before")
	var log bytes.Buffer
	creds, err := files.TransportCredentials(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(serveTLS(t, ours, "podconfigd"), "tcp://")
	connect := func() string {
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return call(t, podconfigv1.NewPodConfigServiceClient(conn))
	}
	want := func(name string) {
		t.Helper()
		if got := connect(); !strings.Contains(got, "you are "+name) {
			t.Errorf("podconfigd says %q; want %q", got, name)
		}
	}
	want("before")
	cert, key := ours.Issue(certtest.Request{CommonName: "after"})
	write(t, files.CertFile, cert)
	want("before")
	want("before")
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), files.CertFile) {
		t.Errorf("files that don't fit are said %d times; want once, with the file:\n%s", n, &log)
	}
	write(t, files.KeyFile, key)
	want("after")
}
