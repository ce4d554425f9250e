package podconfigd

import (
	"fmt"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/porttest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRefusedWritersDontFillTheLog: a caller without the right to write can't fill the log by its attempts, and those of another
// one are logged even so.
func TestRefusedWritersDontFillTheLog(t *testing.T) {
	ca, dir := certtest.NewCA(t, "all"), shortDir(t)
	file := func(name string, data []byte) string {
		certtest.WriteFile(t, filepath.Join(dir, name), data)
		return filepath.Join(dir, name)
	}
	cert, key := ca.Issue(certtest.Request{Server: true})
	access := "clients:\n- {commonName: one, role: inspector}\n- {commonName: two, role: inspector}\n"
	address, log := fmt.Sprintf("127.0.0.1:%d", porttest.Reserve(t)), &logtest.Buffer{}
	launch(t, dir, log, "--applied", "--listen", "tcp://"+address, "--tls-cert-file", file("cert", cert), "--tls-private-key-file", file("key", key),
		"--client-ca-file", file("ca", ca.PEM), "--access-file", file("access", []byte(access)))
	write := func(name string) {
		t.Helper()
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(client(ca, name))),
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = podconfigv1.NewPodConfigServiceClient(conn).ApplyManifests(t.Context(), &podconfigv1.ApplyManifestsRequest{})
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.Unavailable {
			t.Fatalf("%s: %v; want PERMISSION_DENIED", name, err)
		}
	}
	const calls = 200
	for range calls {
		write("one")
	}
	write("two")
	if n := log.Count(`msg="manifest write"`, "identity=one"); n == 0 || n >= calls/2 {
		t.Errorf("%d attempts have %d lines; want some, and fewer", calls, n)
	}
	if n := log.Count(`msg="manifest write"`, "identity=two"); n != 1 {
		t.Errorf("the attempt of another caller has %d lines; want one", n)
	}
}
