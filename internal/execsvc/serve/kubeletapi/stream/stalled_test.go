package stream

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
)

// zeros returns a reader of this many zero bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

// Read implements io.Reader.
func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// heapInUse returns the heap in use after a collection.
func heapInUse() uint64 {
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	return m.HeapInuse
}

// Streamed data isn't kept: the heap doesn't grow while 100 MB are sent in both directions.
func TestMuchGoesThrough(t *testing.T) {
	const much = 100 << 20
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		n.pod("web", nil, "pause")
		var came atomic.Int64
		var peak uint64
		before := heapInUse()
		measure := writerFunc(func(p []byte) (int, error) {
			if now := came.Add(int64(len(p))); now>>24 != (now-int64(len(p)))>>24 { // Each 16 MiB.
				peak = max(peak, heapInUse())
			}
			return len(p), nil
		})
		err := open(n, "/exec/default/web/main", echoing...).StreamWithContext(t.Context(), remotecommand.StreamOptions{
			Stdin: zeros(much), Stdout: measure,
		})
		if err != nil || came.Load() != much {
			t.Errorf("%d bytes of %d came, error %v", came.Load(), much, err)
		}
		// The client, the runtime and the streams are all in this process, and produce garbage during the
		// measurement. Kept data would be much more.
		if grown := int64(peak) - int64(before); grown > much/2 {
			t.Errorf("the heap grew by %d KiB", grown>>10)
		}
	})
}

// dialWebsocket opens a stream without reading from it.
func (n *node) dialWebsocket(protocol, path string, pairs ...string) *websocket.Conn {
	n.t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Subprotocols: []string{protocol}}
	conn, response, err := dialer.Dial(strings.Replace(n.url(path, pairs...).String(), "https", "wss", 1), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	_ = response.Body.Close()
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A caller that sends and never reads is blocked, uses only the buffers, and doesn't delay the end.
func TestCallerDoesNotRead(t *testing.T) {
	for _, protocol := range []string{"v4.channel.k8s.io", "v5.channel.k8s.io"} {
		t.Run(protocol, func(t *testing.T) {
			n := newNode(t, nil)
			n.pod("web", nil, "pause")
			before := heapInUse()
			conn := n.dialWebsocket(protocol, "/exec/default/web/main", echoing...)
			_ = conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			typed, message := 0, make([]byte, 64<<10)
			for conn.WriteMessage(websocket.BinaryMessage, message) == nil { // Until the buffers are full.
				typed += len(message)
			}
			if grown := int64(heapInUse()) - int64(before); grown > 16<<20 {
				t.Errorf("after %d KiB the heap grew by %d KiB", typed>>10, grown>>10)
			}
			n.Handler.Close()
		})
	}
}

// A command that neither reads its input nor writes keeps the stream only until the idle timeout.
func TestCommandDoesNotRead(t *testing.T) {
	for _, protocol := range []string{"v4.channel.k8s.io", "v5.channel.k8s.io"} {
		t.Run(protocol, func(t *testing.T) {
			n := newNode(t, func(cfg *Config) { cfg.IdleTimeout = 500 * time.Millisecond })
			n.pod("web", nil, "pause")
			conn := n.dialWebsocket(protocol, "/exec/default/web/main", command([]string{"input", "1", "output", "1"}, "pause")...)
			message := make([]byte, 64<<10)
			for conn.WriteMessage(websocket.BinaryMessage, message) == nil { // Until the node hangs up.
			}
			n.slots.close() // It waits until all streams have ended.
		})
	}
}

// endless is a runtime whose commands write endlessly.
type endless struct{ Runtime }

// Exec implements Runtime.
func (endless) Exec(_ context.Context, in runtime.ExecInput) (int, error) {
	for line := []byte(strings.Repeat("x", 1<<10)); ; {
		if _, err := in.Stdout.Write(line); err != nil {
			return 0, err
		}
	}
}

// A caller that runs a command and doesn't read its output is disconnected after the idle timeout, and when the
// Handler closes.
func TestRunCallerDoesNotRead(t *testing.T) {
	for name, idle := range map[string]time.Duration{"idle": 2 * time.Second, "closed": time.Hour} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, func(cfg *Config) { cfg.Runtime, cfg.IdleTimeout = endless{cfg.Runtime}, idle })
			n.pod("web", nil, "pause")
			r := n.ask(http.MethodPost, n.url("/run/default/web/main", "cmd", "yes")) // The header is sent with the first output.
			if r.StatusCode != http.StatusOK {
				t.Fatal(r.Status)
			}
			if name == "closed" {
				n.Handler.Close()
			} else {
				n.slots.close() // It waits until all streams have ended.
			}
		})
	}
}

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (here, there *net.TCPConn) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if here, err = net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr)); err != nil {
		t.Fatal(err)
	}
	if there, err = listener.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = here.Close()
		_ = there.Close()
	})
	return here, there
}

// A side that has half-closed its connection still receives the other side's last data, and both directions
// end.
func TestHalfClosed(t *testing.T) {
	for _, first := range []string{"the caller", "the runtime"} {
		caller, near := tcpPair(t)
		far, backend := tcpPair(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			splice(t.Context(), near, far, "", time.Hour)
		}()
		one, other := caller, backend
		if first == "the runtime" {
			one, other = backend, caller
		}
		_, _ = io.WriteString(one, "bye")
		if err := one.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(other); err != nil || string(got) != "bye" {
			t.Errorf("%s half-closes: the other receives %q, %v", first, got, err)
		}
		_, _ = io.WriteString(other, "so long")
		_ = other.Close()
		if got, err := io.ReadAll(one); err != nil || string(got) != "so long" {
			t.Errorf("%s half-closes, and receives %q, %v", first, got, err)
		}
		<-done
	}
}

// A connection that breaks, and the end of the context, end both directions.
func TestSpliceEnds(t *testing.T) {
	for name, end := range map[string]func(caller, backend *net.TCPConn, cancel func()){
		"the caller breaks off": func(c, _ *net.TCPConn, _ func()) { _ = c.SetLinger(0); _ = c.Close() },
		"the runtime breaks off": func(c, b *net.TCPConn, _ func()) {
			_, _ = b.SetLinger(0), b.Close()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		},
		"the context ends": func(_, _ *net.TCPConn, cancel func()) { cancel() },
	} {
		caller, near := tcpPair(t)
		far, backend := tcpPair(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			splice(ctx, near, far, "head", time.Hour)
		}()
		if _, err := io.ReadFull(caller, make([]byte, len("head"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		end(caller, backend, cancel)
		<-done
		cancel()
	}
}

// The runtime receives nothing that identifies the caller, and only a runtime on this machine is called.
func TestRuntimeLearnsLittle(t *testing.T) {
	learnt := make(chan http.Header, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		learnt <- r.Header
		http.Error(w, "no such stream", http.StatusNotFound)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		_ = server.Close()
		<-done
	}()
	n := newNode(t, nil)
	header := http.Header{
		"Authorization": {"Bearer secret"}, "Cookie": {"a=b"}, "X-Forwarded-For": {"10.0.0.1"}, "Upgrade": {"SPDY/3.1"},
		"Sec-Websocket-Key": {"k"}, "X-Stream-Protocol-Version": {"v4.channel.k8s.io", "v3.channel.k8s.io"},
	}
	u := n.url("")
	u.Scheme, u.Host = "http", listener.Addr().String()
	_, _, err = n.connect(t.Context(), http.MethodPost, u, header) //nolint:bodyclose // It fails.
	if statusOf(err) != http.StatusNotFound || err.Error() != "no such stream\n" {
		t.Errorf("the runtime's refusal: %v", err)
	}
	got := <-learnt
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For"} {
		if got.Get(name) != "" {
			t.Errorf("the runtime receives %s", name)
		}
	}
	if len(got.Values("X-Stream-Protocol-Version")) != 2 || got.Get("Upgrade") != "SPDY/3.1" || got.Get("Sec-Websocket-Key") != "k" {
		t.Errorf("the runtime is asked for %v", got)
	}
}
