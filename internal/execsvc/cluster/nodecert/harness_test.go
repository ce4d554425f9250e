package nodecert

import (
	"context"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/renameio/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podstream/podstream/internal/logtest"
)

func TestMain(m *testing.M) {
	for _, proxy := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		_ = os.Unsetenv(proxy)
	}
	// The second handler delays errors by the time since the last one, which it measures outside of the
	// bubbles.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // The variable is meant to be changed.
	goleak.VerifyTestMain(m)
}

// node is a machine: its files, and its log.
type node struct {
	t   *testing.T
	dir string
	log *logtest.Buffer
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), log: &logtest.Buffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node's log:\n%v", n.log)
		}
	})
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) kubeconfig() string { return n.path("kubeconfig") }

func (n *node) pem() string { return n.path("pki/kubelet-client-current.pem") }

// write replaces a file.
func (n *node) write(path string, data []byte) {
	n.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := renameio.WriteFile(path, data, 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) read(path string) []byte {
	n.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	return data
}

func (n *node) remove(path string) {
	n.t.Helper()
	if err := os.Remove(path); err != nil {
		n.t.Fatal(err)
	}
}

// kubeconfigFor returns a kubeconfig for the api with a user's credentials.
func (n *node) kubeconfigFor(a *api, user clientcmdapi.AuthInfo) []byte {
	n.t.Helper()
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"k": {Server: "https://" + apiHost + ":6443", CertificateAuthorityData: a.ca.PEM}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": &user, "other": {Token: "another"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "k", AuthInfo: "u"}},
		CurrentContext: "c",
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return data
}

// bootstrapTo writes a bootstrap kubeconfig for the api.
func (n *node) bootstrapTo(a *api) {
	n.write(n.path("bootstrap"), n.kubeconfigFor(a, clientcmdapi.AuthInfo{Token: token}))
}

// install writes a kubeconfig with a node's certificate, valid for an hour, as an installer does. It returns
// the certificate's key.
func (n *node) install(a *api, node string) (keyPEM []byte) {
	n.t.Helper()
	certPEM, keyPEM := a.ca.PairPEM(forNode(node, time.Hour))
	n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}))
	return keyPEM
}

// forNode returns the template of a node's client certificate.
func forNode(node string, life time.Duration) x509.Certificate {
	return x509.Certificate{
		Subject: subject(node), NotBefore: time.Now(), NotAfter: time.Now().Add(life), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// client returns this node's Client of the api, with the usual flags.
func (n *node) client(a *api, change ...func(*ClientConfig)) *Client {
	cfg := ClientConfig{
		Node: "n1", Kubeconfig: n.kubeconfig(), BootstrapKubeconfig: n.path("bootstrap"), CertDir: n.path("pki"), Rotate: true, Dial: a.dial,
		Logger: slog.New(slog.NewTextHandler(n.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	return NewClient(cfg)
}

// start runs a client until the test ends.
func (n *node) start(a *api, change ...func(*ClientConfig)) *Client {
	n.t.Helper()
	c := n.client(a, change...)
	run(n.t, c.Run)
	return c
}

// run runs a function until the returned function, or the end of the test, ends it.
func run(t *testing.T, what func(context.Context)) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		what(ctx)
	}()
	var once sync.Once
	end = func() { once.Do(func() { cancel(); <-ended }) }
	t.Cleanup(end)
	return end
}

// await waits, in the bubble's time, until the condition is true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Hour); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within an hour: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
}

// always checks, each minute for some time, that the condition is true.
func always(t *testing.T, what string, while time.Duration, is func() bool) {
	t.Helper()
	for end := time.Now().Add(while); time.Now().Before(end); {
		time.Sleep(time.Minute)
		synctest.Wait()
		if !is() {
			t.Fatalf("not so at %v: %s", time.Now(), what)
		}
	}
}

// metric returns the value of a counter or a gauge.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if m := f.GetMetric(); f.GetName() == name && len(m) == 1 {
			return m[0].GetCounter().GetValue() + m[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func mustRead(t *testing.T, path string) *kubeconfig {
	t.Helper()
	k, _, err := readKubeconfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
