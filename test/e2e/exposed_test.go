package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/porttest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
	shared "github.com/podstream/podstream/test/rig"
)

// accessFile defines the roles at an exposed podconfigd.
var accessFile = fmt.Sprintf(`clients:
- {commonName: agent, role: consumer}
- {commonName: narrow, role: consumer, sources: ["file:other"]}
- {commonName: looker, role: inspector}
- {uid: %d, role: consumer}
- {uid: %d, role: inspector}
`, consumerUID, inspectorUID)

// exposed is a podconfigd with two sources, file and file:other, on a socket that other users can open, and on TCP.
type exposed struct {
	t      *testing.T
	daemon *devnode.Process
	// dir has the manifests of file and other, and the TLS files.
	dir, socket, tcp, metrics string
	ca                        *certtest.CA
	local                     podconfigv1.PodConfigServiceClient
	// conns are the connections made by this test.
	conns []*grpc.ClientConn
}

func newExposed(t *testing.T) *exposed {
	t.Helper()
	// Not t.TempDir: other users have no access to that.
	dir, err := os.MkdirTemp("", "e2e-open")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	e := &exposed{
		t: t, dir: dir, socket: filepath.Join(dir, "s"), tcp: freeAddress(t), metrics: freeAddress(t), ca: certtest.NewCA(t, "first"),
	}
	for _, sub := range []string{"file", "other", "tls"} {
		check(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	e.serverCertificate(e.ca)
	e.tlsFile("clients.pem", e.ca.PEM)
	e.tlsFile("access.yaml", []byte(accessFile))
	name := fmt.Sprintf("n%d", rigs.Add(1))
	e.daemon, err = startNode(t, devnode.Sim).StartDaemonAs(name+"-podconfigd", "podconfigd", "--hostname-override", name,
		"--root-dir", filepath.Join(dir, "root"), "--listen", "unix://"+e.socket, "--listen", "tcp://"+e.tcp, "--metrics-address", e.metrics,
		"--pod-manifest-path", filepath.Join(dir, "file"), "--pod-manifest-path", "other="+filepath.Join(dir, "other"),
		"--tls-cert-file", e.tlsPath("server.pem"), "--tls-private-key-file", e.tlsPath("server.key"),
		"--client-ca-file", e.tlsPath("clients.pem"), "--access-file", e.tlsPath("access.yaml"))
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s ends with:\n%s", e.daemon.Name, e.daemon.LogTail())
		}
		e.hangUp()
		_ = e.daemon.Kill()
	})
	check(t, devnode.WaitServing(t.Context(), e.daemon, "unix://"+e.socket))
	e.local = podconfigv1.NewPodConfigServiceClient(dial(t, "unix://"+e.socket))
	return e
}

// forTest returns the same podconfigd for a subtest, with connections that end with the subtest.
func (e *exposed) forTest(t *testing.T) *exposed {
	own := *e
	own.t, own.conns = t, nil
	t.Cleanup(own.hangUp)
	return &own
}

// hangUp closes the test's connections.
func (e *exposed) hangUp() {
	for _, conn := range e.conns {
		_ = conn.Close()
	}
	e.conns = nil
}

// put renames a manifest into place.
func (e *exposed) put(source, name, content string) error {
	temp := filepath.Join(e.dir, source, "."+name)
	if err := os.WriteFile(temp, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(e.dir, source, name))
}

// freeAddress returns an address on loopback that is reserved until the test ends.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", porttest.Reserve(t))
}

// until polls until check succeeds.
func until(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := shared.Poll(limit, check); err != nil {
		t.Fatalf("not within %v: %s: %v", limit, what, err)
	}
}
