package stream

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	streamhttp "k8s.io/streaming/pkg/httpstream"
)

// dialers are the two protocols of a port forwarder.
var dialers = map[string]func(n *node) (streamhttp.Dialer, error){
	"spdy": func(n *node) (streamhttp.Dialer, error) {
		transport, upgrader, err := spdy.RoundTripperFor(n.client())
		return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, "POST", n.url("/portForward/default/web")), err
	},
	"tunnel": func(n *node) (streamhttp.Dialer, error) {
		return portforward.NewSPDYOverWebsocketDialerForStreaming(n.url("/portForward/default/web/uid-web"), n.client())
	},
}

// forward forwards a free local port, until stop is closed.
func forward(t *testing.T, n *node, kind string, port int, stop <-chan struct{}) (address string, done <-chan error) {
	t.Helper()
	dialer, err := dialers[kind](n)
	if err != nil {
		t.Fatal(err)
	}
	return forwardOver(t, dialer, port, stop)
}

// forwardOver forwards a free local port over the connections of a dialer.
func forwardOver(t *testing.T, dialer streamhttp.Dialer, port int, stop <-chan struct{}) (address string, done <-chan error) {
	t.Helper()
	ready, ended := make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprint("0:", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", ports[0].Local), ended
}

func TestPortForward(t *testing.T) {
	for kind := range dialers {
		t.Run(kind, func(t *testing.T) {
			n := newNode(t, nil)
			n.pod("web", nil, "pause")
			stop := make(chan struct{})
			address, done := forward(t, n, kind, 80, stop)
			for range 3 { // Connections share the one stream.
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				sent := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
				go func() { _, _ = conn.Write(sent) }()
				want := append([]byte("web:80 "), sent...)
				got := make([]byte, len(want))
				if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("read: %v", err)
				}
				_ = conn.Close()
			}
			close(stop)
			if err := <-done; err != nil {
				t.Errorf("ended: %v", err)
			}
		})
	}
}

// A forward ends with its pod, so that its client sees the end.
func TestPortForwardEndsWithItsPod(t *testing.T) {
	for kind := range dialers {
		for end, change := range map[string]func(n *node){
			"gone": func(n *node) { n.board.Remove("uid-web") },
			"failed": func(n *node) {
				p, _ := n.board.Get("uid-web")
				p.Status = &v1.PodStatus{Phase: v1.PodFailed}
				n.board.Set(p)
			},
		} {
			t.Run(kind+" "+end, func(t *testing.T) {
				n := newNode(t, nil)
				n.pod("web", nil, "pause")
				_, done := forward(t, n, kind, 80, make(chan struct{}))
				change(n)
				if err := <-done; err == nil {
					t.Error("the lost connection isn't reported")
				}
			})
		}
	}
}

func TestPortForwardRefused(t *testing.T) {
	n := newNode(t, nil)
	n.pod("web", nil, "pause")
	websocketTo := func(path string, pairs ...string) string {
		dialer := websocket.Dialer{TLSClientConfig: n.web.Client().Transport.(*http.Transport).TLSClientConfig, Subprotocols: []string{"v4.channel.k8s.io"}}
		conn, response, err := dialer.Dial(strings.Replace(n.url(path, pairs...).String(), "https", "wss", 1), nil)
		if err == nil {
			_ = conn.Close()
			return "open"
		}
		if response == nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		return fmt.Sprint(response.StatusCode, " ", text(t, response.Body))
	}
	for got, want := range map[string]string{
		websocketTo("/portForward/default/web"):                   `400 query parameter "port" is required`,
		websocketTo("/portForward/default/web", "port", "80,x"):   `400 unable to parse "x" as a port`,
		websocketTo("/portForward/default/web", "port", "0"):      `400 unable to parse "0" as a port`,
		websocketTo("/portForward/default/none", "port", "80"):    `404 pod "none" does not exist`,
		websocketTo("/portForward/default/web/x", "port", "80"):   `404 pod "web" does not exist with UID "x"`,
		websocketTo("/portForward/default/web", "port", "80,443"): "open", // The runtime's own protocol.
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if r := n.ask(http.MethodPost, n.url("/portForward/default/web")); r.StatusCode != http.StatusBadRequest || text(t, r.Body) != "Upgrade request required" {
		t.Errorf("without an upgrade: %s", r.Status)
	}
	n.slots.close()
}

// An idle stream ends.
func TestIdleStreamEnds(t *testing.T) {
	n := newNode(t, func(cfg *Config) { cfg.IdleTimeout = 300 * time.Millisecond })
	n.pod("web", nil, "pause")
	dialer := websocket.Dialer{TLSClientConfig: n.web.Client().Transport.(*http.Transport).TLSClientConfig}
	for protocol, path := range map[string]string{"v4.channel.k8s.io": "/exec/default/web/main", "v5.channel.k8s.io": "/exec/default/web/main"} {
		dialer.Subprotocols = []string{protocol}
		u := n.url(path, command([]string{"input", "1", "output", "1"}, "stdin")...)
		conn, response, err := dialer.Dial(strings.Replace(u.String(), "https", "wss", 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		for err == nil {
			_, _, err = conn.ReadMessage()
		}
		_ = conn.Close()
	}
	n.slots.close()
}
