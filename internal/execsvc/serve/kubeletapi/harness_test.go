package kubeletapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
	"github.com/podstream/podstream/internal/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a running Server.
type node struct {
	*Server
	t        *testing.T
	ca       *certtest.CA
	api      *api
	address  string
	log      *logtest.Buffer
	registry *prometheus.Registry
	stop     context.CancelFunc
	done     chan struct{}
	err      error
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start starts a Server with one listener. change may add more.
func start(t *testing.T, change func(*Config)) *node {
	t.Helper()
	n := &node{t: t, ca: certtest.NewCA(t, "ca"), api: &api{}, log: &logtest.Buffer{}, registry: prometheus.NewRegistry(), done: make(chan struct{})}
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(caFile, n.ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	who, err := auth.New(auth.Config{NodeName: "node-1", ClientCAFile: caFile, TokenReviews: tokenAPI{n.api}, AccessReviews: accessAPI{n.api}})
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	n.address = l.Addr().String()
	serving := n.ca.Pair(x509.Certificate{
		Subject: pkix.Name{CommonName: "node-1"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	cfg := Config{
		Listeners: []net.Listener{l}, TLS: &tls.Config{Certificates: []tls.Certificate{serving}}, Auth: who, Debug: Debug{Handlers: true},
		Metrics: n.registry, Logger: slog.New(slog.NewTextHandler(n.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	if n.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go func() {
		defer close(n.done)
		n.err = n.Run(ctx)
	}()
	t.Cleanup(n.end)
	return n
}

// end stops the Server and waits for its end.
func (n *node) end() {
	n.stop()
	<-n.done
	if n.err != nil {
		n.t.Error(n.err)
	}
}

// page returns the scraped metrics of a name.
func (n *node) page(name string) string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var lines strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, name) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// refusedFor returns how many connections were refused for a reason.
func (n *node) refusedFor(reason string) int {
	n.t.Helper()
	metric := `podstream_node_api_refused_total{reason="` + reason + `"} `
	count, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(n.page(metric), metric)))
	if err != nil {
		n.t.Fatal(err)
	}
	return count
}

// fill fills a pipe.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	_ = pipe.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for {
		if _, err := pipe.Write(make([]byte, 4096)); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			return
		}
	}
}
