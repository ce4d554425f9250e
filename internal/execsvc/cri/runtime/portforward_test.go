package runtime

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simnode"
)

// listening is a simulated runtime with one pod, uid-1, whose port 80 handle serves. Other ports are closed.
func listening(t *testing.T, handle func(*net.TCPConn)) *Runtime {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			handle(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	node := simnode.New(t, simruntime.Config{Streams: true, Dial: func(ctx context.Context, _ string, port int32) (net.Conn, error) {
		if port != 80 {
			return nil, errors.New("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	}})
	if _, err := node.CRI.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "uid-1"}, LogDirectory: t.TempDir(),
		Labels: map[string]string{podmeta.PodUIDLabel: "uid-1"}, Annotations: map[string]string{podmeta.AgentAnnotation: "me"},
	}, ""); err != nil {
		t.Fatal(err)
	}
	return New(Config{Runtime: node.CRI, Agent: "me"})
}

// The end of each direction reaches the other side, and the other direction goes on.
func TestForwardPort(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for name, tc := range map[string]struct {
		pod  func(*net.TCPConn)
		want string
	}{
		"the caller ends first": {func(conn *net.TCPConn) {
			text, _ := io.ReadAll(conn)
			_, _ = conn.Write(append([]byte("read "), text...))
		}, "read " + string(sent)},
		"the pod ends first": {func(conn *net.TCPConn) {
			_, _ = io.WriteString(conn, "at once")
			_ = conn.CloseWrite()
			if text, err := io.ReadAll(conn); err != nil || !bytes.Equal(text, sent) {
				t.Errorf("after its own end the pod reads %d bytes, %v", len(text), err)
			}
		}, "at once"},
	} {
		t.Run(name, func(t *testing.T) {
			r := listening(t, tc.pod)
			reader, writer := io.Pipe()
			defer reader.Close()
			ended := make(chan struct{})
			go func() {
				if name == "the pod ends first" {
					<-ended
				}
				_, _ = writer.Write(sent)
				_ = writer.Close()
			}()
			var out bytes.Buffer
			err := r.ForwardPort(t.Context(), PortInput{UID: "uid-1", Port: 80, In: reader, Out: &out, OutEnded: func() error {
				close(ended)
				return nil
			}})
			if err != nil || out.String() != tc.want {
				t.Errorf("%v, %d bytes; want %d", err, out.Len(), len(tc.want))
			}
		})
	}
}

func TestForwardPortFails(t *testing.T) {
	r := listening(t, func(*net.TCPConn) {})
	forward := func(in PortInput) error {
		in.In, in.Out, in.OutEnded = strings.NewReader(""), io.Discard, func() error { return nil }
		return r.ForwardPort(t.Context(), in)
	}
	if err := forward(PortInput{UID: "uid-2", Port: 80}); !errors.Is(err, ErrNoSandbox) {
		t.Errorf("a pod without a sandbox: %v", err)
	}
	if err := forward(PortInput{UID: "uid-1", Port: 81}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a closed port: %v; want the runtime's reason", err)
	}
}

// breaking serves connections to ports that send a text and then break. It returns the URL.
func breaking(t *testing.T) string {
	t.Helper()
	var raw net.Conn
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := httpstream.Handshake(req, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			t.Errorf("handshake: %v", err)
			return
		}
		opened := make(chan httpstream.Stream, 2)
		spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, replied <-chan struct{}) error {
			go func() {
				<-replied
				opened <- s
			}()
			return nil
		})
		for range 2 {
			if s := <-opened; s.Headers().Get(v1.StreamType) == v1.StreamTypeData {
				_, _ = io.WriteString(s, "half a te")
			}
		}
		_ = raw.Close() // SPDY would reset the streams first.
	}))
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		raw = conn
		return ctx
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// A connection that breaks isn't taken for the end of the pod's data. The runtime's URL must not lead elsewhere.
func TestForwardPortBroken(t *testing.T) {
	elsewhere := httptest.NewServer(http.RedirectHandler("http://192.0.2.1/", http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	for name, tc := range map[string]struct{ url, text, want string }{
		"broken":    {breaking(t), "half a te", errStreamBroken.Error()},
		"redirects": {elsewhere.URL, "", "redirects elsewhere"},
	} {
		cri := &streamCRI{url: tc.url, sandboxes: []*runtimeapi.PodSandbox{{Id: "a", Annotations: map[string]string{podmeta.AgentAnnotation: "me"}}}}
		var out bytes.Buffer
		err := New(Config{Runtime: cri, Agent: "me"}).ForwardPort(t.Context(), PortInput{
			UID: "uid-1", Port: 80, In: strings.NewReader(""), Out: &out, OutEnded: func() error {
				t.Errorf("%s: the pod's data counts as ended", name)
				return nil
			},
		})
		if err == nil || !strings.Contains(err.Error(), tc.want) || out.String() != tc.text {
			t.Errorf("%s: %v after %q; want %q after %q", name, err, &out, tc.want, tc.text)
		}
	}
}

// stalled is a writer that blocks until it is released.
type stalled struct {
	began   chan struct{}
	release <-chan struct{}
}

func (s *stalled) Write([]byte) (int, error) {
	select {
	case <-s.began:
	default:
		close(s.began)
	}
	<-s.release
	return 0, errors.New("the caller has gone")
}

// A pod that sends without end to a caller that doesn't read fills bounded buffers, and ends with the caller.
func TestForwardPortBoundsBytes(t *testing.T) {
	const most = 16 << 20 // The buffers of two sockets are a part of it.
	var written atomic.Int64
	full := make(chan struct{})
	r := listening(t, func(conn *net.TCPConn) {
		piece := make([]byte, 64<<10)
		for written.Load() < 4*most {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			n, err := conn.Write(piece)
			written.Add(int64(n))
			if err != nil {
				break
			}
		}
		close(full)
	})
	reader, writer := io.Pipe()
	defer writer.Close()
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	out := &stalled{began: make(chan struct{}), release: release}
	go func() {
		ended <- r.ForwardPort(ctx, PortInput{UID: "uid-1", Port: 80, In: reader, Out: out, OutEnded: func() error { return nil }})
	}()
	<-out.began
	<-full
	cancel()
	if err := <-ended; err == nil { // Out is still blocked.
		t.Error("no error after the caller's end")
	}
	close(release)
	_ = reader.Close()
	if n := written.Load(); n > most {
		t.Errorf("the pod could send %d bytes to a caller that doesn't read; want at most %d", n, most)
	}
}
