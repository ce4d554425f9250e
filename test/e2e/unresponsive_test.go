package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/internal/certtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// beSilent opens connections that send nothing, or only a preface. The returned function waits until they are
// closed.
func beSilent(t *testing.T, e *exposed) func(*testing.T, *exposed) {
	began := time.Now()
	type end struct {
		what string
		took time.Duration
		err  error
	}
	ends := make(chan end, 10)
	conns := map[string]net.Conn{}
	for what, from := range map[string]string{"nothing on the socket": "", "half a greeting on the socket": "", "nothing over TCP": slowly} {
		conn, err := e.connect(inspectorUID, from)
		check(t, err)
		if strings.HasPrefix(what, "half") {
			_, err = io.WriteString(conn, http2.ClientPreface[:10])
			check(t, err)
		}
		conns[what] = conn
	}
	cfg := e.ca.Client(e.ca, certtest.Request{CommonName: "agent"})
	cfg.NextProtos = []string{"h2"}
	secured, err := tls.Dial("tcp", e.tcp, cfg)
	check(t, err)
	conns["nothing after TLS"] = secured
	for what, conn := range conns {
		go func() {
			err := awaitEnd(conn)
			_ = conn.Close()
			ends <- end{what, time.Since(began), err}
		}()
	}
	return func(t *testing.T, _ *exposed) {
		for range conns {
			if got := <-ends; got.err != nil || got.took < handshakeTimeout/2 {
				t.Errorf("a client that sends %s is disconnected after %v, %v; want about %v", got.what, got.took, got.err, handshakeTimeout)
			}
		}
	}
}

// beDeaf starts consumers that never read. The returned function checks that they are parked, and that a
// consumer that reads again receives the current state. A client that reads nothing at all doesn't answer the server's
// pings either: it is parked, and later disconnected.
func beDeaf(t *testing.T, deafened *exposed, consumers int) func(*testing.T, *exposed) {
	var watches []grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse]
	for i := range consumers {
		// One half reads the connection, but not the stream; the other half reads nothing at all.
		name, api := "agent/deaf", deafened.identified("agent", slowly)
		if i%2 == 1 {
			name, api = "deaf", deafened.dialWith(insecure.NewCredentials(), func(context.Context, string) (net.Conn, error) {
				conn, err := deafened.connect(inspectorUID, "")
				return &deafConn{Conn: conn, hears: 1 << 10, closed: make(chan struct{})}, err
			})
		}
		watch, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Consumer: name})
		check(t, err)
		watches = append(watches, watch)
	}
	return func(t *testing.T, e *exposed) {
		defer deafened.hangUp()
		until(t, patience, "the deaf are parked", func() error {
			resp, err := e.local.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
			if err != nil {
				return err
			}
			listed := map[string]int{}
			for _, c := range resp.GetConsumers() {
				deaf := strings.HasSuffix(c.GetName(), "deaf")
				if (c.GetState() == podconfigv1.ConsumerState_CONSUMER_STATE_PARKED) != deaf {
					return fmt.Errorf("%s is %v", c.GetName(), c.GetState())
				}
				listed[c.GetName()]++
			}
			if reading, silent := listed["agent/deaf"], listed["deaf"]; reading != consumers/2 || silent != 0 && silent != consumers/2 {
				return fmt.Errorf("%d that answer pings are parked, and %d that don't", reading, silent)
			}
			return nil
		})
		if n, err := metricOn(e.metrics, `podconfigd_consumers_parked_total{reason="stalled"}`); err != nil || n < float64(consumers) {
			t.Errorf("%v consumers are counted as parked, %v; want %d at least", n, err, consumers)
		}
		current, err := listReferences(t.Context(), e.local)
		check(t, err)
		for at := uint64(0); at < current.GetRevision(); {
			msg, err := watches[0].Recv()
			check(t, err)
			at = max(at, msg.GetCursor().GetRevision())
		}
	}
}

// deafConn reads only the start of a connection.
type deafConn struct {
	net.Conn
	hears  int
	once   sync.Once
	closed chan struct{}
}

func (c *deafConn) Read(p []byte) (int, error) {
	if c.hears <= 0 {
		<-c.closed
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p[:min(len(p), c.hears)])
	c.hears -= n
	return n, err
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
