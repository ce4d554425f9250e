package runtime

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/tools/portforward"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// hung is a streaming server that accepts connections, and opens no stream.
type hung struct {
	url string
	// upgraded, asked and closed get a value for each connection, for each request, and for each connection that has ended.
	upgraded, asked, closed chan struct{}
}

func serveHung(t *testing.T, protocols ...string) hung {
	t.Helper()
	const most = 100
	h := hung{upgraded: make(chan struct{}, most), asked: make(chan struct{}, most), closed: make(chan struct{}, most)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := httpstream.Handshake(req, w, protocols); err != nil {
			t.Errorf("handshake: %v", err)
			return
		}
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(httpstream.Stream, <-chan struct{}) error {
			h.asked <- struct{}{}
			return errors.New("not now")
		})
		h.upgraded <- struct{}{}
		<-conn.CloseChan()
		h.closed <- struct{}{}
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// While the runtime answers no request for a stream, the calls of each kind make a bounded number of them. A caller that
// goes away leaves no connection.
func TestHungRuntime(t *testing.T) {
	for name, tc := range map[string]struct {
		protocol string
		call     func(context.Context, *Runtime) error
	}{
		"exec": {"v4.channel.k8s.io", func(ctx context.Context, r *Runtime) error {
			_, err := r.Exec(ctx, ExecInput{ContainerID: "c1", Command: []string{"sh"}, Stdout: io.Discard, Stderr: io.Discard})
			return err
		}},
		"attach": {"v4.channel.k8s.io", func(ctx context.Context, r *Runtime) error {
			return r.Attach(ctx, ExecInput{ContainerID: "c1", Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
		}},
		"port-forward": {portforward.PortForwardProtocolV1Name, func(ctx context.Context, r *Runtime) error {
			return r.ForwardPort(ctx, PortInput{
				UID: "uid-1", Port: 80, In: strings.NewReader(""), Out: io.Discard, OutEnded: func() error { return nil },
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := serveHung(t, tc.protocol)
			r := New(Config{Agent: "me", Runtime: &streamCRI{
				url: server.url, sandboxes: []*runtimeapi.PodSandbox{{Id: "a", Annotations: map[string]string{podmeta.AgentAnnotation: "me"}}},
			}})
			for range maxOpening {
				r.opening <- struct{}{} // As if that many requests weren't answered.
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- tc.call(ctx, r) }()
			<-server.upgraded
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the call ends with %v", err)
			}
			<-server.closed
			if n := len(server.asked); n > 0 {
				t.Errorf("the runtime has %d requests more than it may have", n)
			}
		})
	}
}

// A request for a stream waits for a place, and keeps it until it is answered. It keeps the headers that it was made with.
func TestCreateStreamHasAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		conn := unanswered{asked: make(chan http.Header, 1), release: make(chan struct{}), closed: make(chan struct{}, 1)}
		opening := make(chan struct{}, 1)
		headers := http.Header{"Streamtype": {"error"}}
		ended := make(chan error, 1)
		opening <- struct{}{}
		c := &streamConn{Connection: conn, transport: &streamTransport{ctx: ctx, opening: opening}}
		go func() {
			_, err := c.CreateStream(headers)
			ended <- err
		}()
		synctest.Wait()
		if len(conn.asked) > 0 {
			t.Error("without a place there is a request")
		}
		<-opening
		synctest.Wait()
		asked := <-conn.asked
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
		headers.Set("Streamtype", "data")
		if got := asked.Get("Streamtype"); got != "error" {
			t.Errorf("the request's header is %q", got)
		}
		synctest.Wait()
		if err := c.Close(); err != nil || len(opening) != 1 || len(conn.closed) != 0 {
			t.Errorf("before the answer: %d places are taken, %d connections are closed, %v; want 1 and 0", len(opening), len(conn.closed), err)
		}
		close(conn.release)
		synctest.Wait()
		if len(opening) != 0 || len(conn.closed) != 1 {
			t.Errorf("after the answer: %d places are taken, %d connections are closed; want 0 and 1", len(opening), len(conn.closed))
		}
	})
}

// unanswered is a connection to a runtime that answers no request for a stream before release.
type unanswered struct {
	httpstream.Connection

	asked   chan http.Header
	release chan struct{}
	closed  chan struct{}
}

// Close implements httpstream.Connection.
func (u unanswered) Close() error {
	u.closed <- struct{}{}
	return nil
}

// CreateStream implements httpstream.Connection.
func (u unanswered) CreateStream(headers http.Header) (httpstream.Stream, error) {
	u.asked <- headers
	<-u.release
	return nil, errors.New("late")
}
