package stream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/proxy"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/metrictest"
)

// responder reports what the proxy can't pass on.
type responder struct{ t *testing.T }

// Error implements proxy.ErrorResponder.
func (r responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	r.t.Errorf("the proxy: %v", err)
	w.WriteHeader(http.StatusBadGateway)
}

// proxied returns a client of a server that passes on streams as the API server does for a node that declares
// ExtendWebSocketsToKubelet: with the same handler, which translates nothing.
func proxied(t *testing.T, n *node) (*restclient.Config, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // It is a test server.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		location := n.url(r.URL.Path)
		location.RawQuery = r.URL.RawQuery
		proxy.NewUpgradeAwareHandler(location, transport, false, true, responder{t}).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &restclient.Config{Host: server.URL, TLSClientConfig: restclient.TLSClientConfig{Insecure: true}}, server.URL
}

// TestExtendWebSocketsToKubelet: the node declares that the API server may pass on WebSockets as they are. Then
// client-go's exec, attach and port forward work through it.
func TestExtendWebSocketsToKubelet(t *testing.T) {
	registry := prometheus.NewRegistry()
	n := newNode(t, func(cfg *Config) { cfg.Registerer = registry })
	n.pod("web", func(c *runtimeapi.ContainerConfig) { c.Stdin, c.StdinOnce = true, true }, "stdin")
	config, server := proxied(t, n)
	run := func(path string, options remotecommand.StreamOptions, query ...string) error {
		t.Helper()
		u := n.url(path, query...)
		e, err := remotecommand.NewWebSocketExecutor(config, "GET", server+u.RequestURI())
		if err != nil {
			t.Fatal(err)
		}
		return e.StreamWithContext(t.Context(), options)
	}

	var stdout, stderr bytes.Buffer
	err := run("/exec/default/web/main", remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr},
		command([]string{"output", "1", "error", "1"}, "nonsense")...)
	var exit utilexec.CodeExitError
	if !errors.As(err, &exit) || exit.Code != 2 || stdout.Len() > 0 || stderr.String() != "sample: unknown command \"nonsense\"\n" {
		t.Errorf("exec: %v, stdout %q, stderr %q", err, &stdout, &stderr)
	}
	stdout.Reset()
	// The end of the input arrives, which needs version 5 of the protocol, and the output after it.
	err = run("/exec/default/web/main", remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &stdout}, echoing...)
	if err != nil || stdout.String() != "hello" {
		t.Errorf("exec with input: %v, stdout %q", err, &stdout)
	}
	stdout.Reset()
	err = run("/attach/default/web/main", remotecommand.StreamOptions{Stdin: strings.NewReader("there"), Stdout: &stdout},
		"input", "1", "output", "1")
	if err != nil || stdout.String() != "there" {
		t.Errorf("attach: %v, stdout %q", err, &stdout)
	}

	stop := make(chan struct{})
	target, err := url.Parse(server + "/portForward/default/web")
	if err != nil {
		t.Fatal(err)
	}
	dialer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
	if err != nil {
		t.Fatal(err)
	}
	address, done := forwardOver(t, dialer, 80, stop)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("web:80 ping"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "web:80 ping" {
		t.Errorf("port forward: %q, %v", got, err)
	}
	_ = conn.Close()
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("port forward: %v", err)
	}
	// No request fell back to SPDY.
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_websocket_streaming_requests_total{subresource=exec}": 2, "kubelet_websocket_streaming_requests_total{subresource=attach}": 1,
		"kubelet_websocket_streaming_requests_total{subresource=portforward}": 1,
	})
}
