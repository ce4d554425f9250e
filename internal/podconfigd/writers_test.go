package podconfigd

import (
	"fmt"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/porttest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// writers is a podconfigd with the source "applied" whose callers have certificates.
type writers struct {
	*running
	ca      *certtest.CA
	address string
}

// launchWriters starts a podconfigd with an access file, and returns its log too.
func launchWriters(t *testing.T, access string) (*writers, *logtest.Buffer) {
	t.Helper()
	ca, dir := certtest.NewCA(t, "all"), shortDir(t)
	file := func(name string, data []byte) string {
		certtest.WriteFile(t, filepath.Join(dir, name), data)
		return filepath.Join(dir, name)
	}
	cert, key := ca.Issue(certtest.Request{Server: true})
	address, log := fmt.Sprintf("127.0.0.1:%d", porttest.Reserve(t)), &logtest.Buffer{}
	r := launch(t, dir, log, "--applied", "--listen", "tcp://"+address, "--tls-cert-file", file("cert", cert), "--tls-private-key-file", file("key", key),
		"--client-ca-file", file("ca", ca.PEM), "--access-file", file("access", []byte(access)))
	return &writers{r, ca, address}, log
}

// as returns a client whose certificate has that name, until end is called.
func (w *writers) as(name string) (c podconfigv1.PodConfigServiceClient, end func()) {
	w.t.Helper()
	conn, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(credentials.NewTLS(w.ca.Client(w.ca, certtest.Request{CommonName: name}))),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		w.t.Fatal(err)
	}
	return podconfigv1.NewPodConfigServiceClient(conn), func() { _ = conn.Close() }
}
