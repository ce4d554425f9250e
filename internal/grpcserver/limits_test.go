package grpcserver_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/grpcserver"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// speak makes a raw connection an HTTP/2 one, and returns once the server takes it for that.
func speak(t *testing.T, conn net.Conn) *http2.Framer {
	t.Helper()
	framer := http2.NewFramer(conn, conn)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("the server's settings: %v; want them", err)
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && s.IsAck() {
			return framer
		}
	}
}

// TestConnectionsPerPeer: a peer at its limit gets no more connections until it closes one; its open ones and other
// peers are not affected.
func TestConnectionsPerPeer(t *testing.T) {
	files := newTLSDir(t, "clients:\n- {commonName: a, role: consumer}\n")
	g := guard(t, files.access(nil), grpcserver.Limits{MaxConnectionsPerPeer: 3}, nil)
	client := g.local()
	if _, err := whoami(t, client); err != nil {
		t.Fatal(err)
	}
	speak(t, g.raw("unix", g.unix))
	third := g.raw("unix", g.unix)
	speak(t, third)
	for range 5 {
		closed(t, "a connection over the limit", g.raw("unix", g.unix))
	}
	if got := g.refused("connections_per_peer"); got != 5 {
		t.Errorf("%d connections are counted as refused; want 5", got)
	}
	if n := strings.Count(g.log.String(), "refused a caller"); n != 1 {
		t.Errorf("the log tells of %d refusals; want 1 within a minute:\n%s", n, g.log)
	}
	if _, err := whoami(t, client); err != nil {
		t.Errorf("a call on a connection that was there before: %v; want it answered", err)
	}
	if who, err := whoami(t, g.remote(files.ca.Client(files.ca, certtest.Request{CommonName: "a"}))); who != "a consumer" {
		t.Errorf("another peer's call: %q, %v; want it answered", who, err)
	}
	_ = third.Close()
	until(t, "the closed connection isn't counted", func() bool { return g.server.Connections()["uid:0"] == 2 })
	speak(t, g.raw("unix", g.unix))

	g.clock.Step(time.Minute)
	closed(t, "a connection over the limit", g.raw("unix", g.unix))
	until(t, "a minute later the log tells again, and how many it kept to itself",
		func() bool { return strings.Contains(g.log.String(), "unlogged_before=4") })
}

// TestConnections: silent connections of many addresses can't take the socket's connections, and the newest ones
// stay.
func TestConnections(t *testing.T) {
	files := newTLSDir(t, "clients: []\n")
	g := guard(t, files.access(nil), grpcserver.Limits{MaxConnections: 4}, nil)
	var silent []net.Conn
	for i := range 6 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i))}}
		conn, err := dialer.Dial("tcp", g.tcp)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	for _, conn := range silent[:2] {
		closed(t, "one of the oldest connections, over the listener's limit", conn)
	}
	if got := g.refused("connections"); got != 2 {
		t.Errorf("%d connections are counted as refused; want 2", got)
	}
	if who, err := whoami(t, g.local()); who != "uid:0 operator" {
		t.Errorf("root on the socket is %q, %v; want an operator", who, err)
	}
}

// TestRequestRate: a peer over its rate gets an error, and may call again later; other peers are not affected.
func TestRequestRate(t *testing.T) {
	files := newTLSDir(t, "clients:\n- {commonName: a, role: consumer}\n")
	g := guard(t, files.access(nil), grpcserver.Limits{RequestsPerSecond: 2, Burst: 5}, nil)
	client := g.local()
	answered := func(calls int) (n int) {
		t.Helper()
		for range calls {
			if _, err := whoami(t, client); err == nil {
				n++
			} else if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "more than 2 requests a second from uid:0") {
				t.Errorf("a call over the rate: %v; want RESOURCE_EXHAUSTED that says why", err)
			}
		}
		return n
	}
	if n := answered(8); n != 5 {
		t.Errorf("%d of 8 calls at once are answered; want 5", n)
	}
	if who, err := whoami(t, g.remote(files.ca.Client(files.ca, certtest.Request{CommonName: "a"}))); who != "a consumer" {
		t.Errorf("another peer's call: %q, %v; want it answered", who, err)
	}
	stream, err := client.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream over the rate: %v; want RESOURCE_EXHAUSTED", err)
	}
	g.clock.Step(time.Second)
	if n := answered(4); n != 2 {
		t.Errorf("a second later %d of 4 calls are answered; want 2", n)
	}
	g.clock.Step(time.Hour)
	if n := answered(8); n != 5 {
		t.Errorf("an hour later %d of 8 calls are answered; want 5", n)
	}
	if got := g.refused("request_rate"); got != 3+1+2+3 {
		t.Errorf("%d calls are counted as refused; want 9", got)
	}
}

// TestLargeRequest: a message over the limit isn't read, and the next call on the connection is answered.
func TestLargeRequest(t *testing.T) {
	g := guard(t, nil, grpcserver.Limits{}, nil)
	client := g.local()
	for _, size := range []int{5 << 20, 100 << 20} {
		_, err := client.ListPods(t.Context(), &podconfigv1.ListPodsRequest{PageToken: strings.Repeat("x", size)})
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a request of %d MiB: %v; want RESOURCE_EXHAUSTED", size>>20, err)
		}
	}
	// UNIMPLEMENTED is the method's own word: it was called.
	if _, err := client.ListPods(t.Context(), &podconfigv1.ListPodsRequest{PageToken: strings.Repeat("x", 3<<20)}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a request of 3 MiB: %v; want it to reach the method", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "long", strings.Repeat("x", 100<<10))
	if _, err := client.ListSources(ctx, &podconfigv1.ListSourcesRequest{}); err == nil {
		t.Error("a call with a header of 100 KiB is answered; want it refused")
	}
	if _, err := whoami(t, client); err != nil {
		t.Errorf("the next call: %v; want it answered", err)
	}
}

// TestStreamsPerConnection: calls of a client over its limit on a connection are refused, and the others continue.
func TestStreamsPerConnection(t *testing.T) {
	g := guard(t, nil, grpcserver.Limits{MaxStreamsPerConnection: 3}, nil)
	framer := speak(t, g.raw("unix", g.unix))
	answers := map[string]sets.Set[uint32]{"headers": {}, "refused": {}}
	for id := uint32(1); id <= 9; id += 2 {
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: watchHeader(t), EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
		if err := framer.WriteData(id, true, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
	}
	for answers["headers"].Len()+answers["refused"].Len() < 5 {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("read the answers: %v; so far %v", err, answers)
		}
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			answers["headers"].Insert(f.StreamID)
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeRefusedStream {
				t.Errorf("stream %d is reset with %v; want REFUSED_STREAM", f.StreamID, f.ErrCode)
			}
			answers["refused"].Insert(f.StreamID)
		}
	}
	if !answers["headers"].Equal(sets.New[uint32](1, 3, 5)) || !answers["refused"].Equal(sets.New[uint32](7, 9)) {
		t.Errorf("answered and refused: %v; want streams 1, 3, 5 and 7, 9", answers)
	}
}

// watchHeader is the header of a call of WatchPodUpdates.
func watchHeader(t *testing.T) []byte {
	t.Helper()
	return header(t, podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName)
}

func header(t *testing.T, method string) []byte {
	t.Helper()
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method},
		{":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	return []byte(block.String())
}

// TestTooManyPings: a client that pings too often is disconnected.
func TestTooManyPings(t *testing.T) {
	g := guard(t, nil, grpcserver.Limits{}, nil)
	framer := speak(t, g.raw("unix", g.unix))
	for i := range 10 {
		// The server may close while these are written.
		_ = framer.WritePing(false, [8]byte{byte(i)})
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("the connection ends with %v; want a GOAWAY", err)
		}
		if f, ok := frame.(*http2.GoAwayFrame); ok {
			if f.ErrCode != http2.ErrCodeEnhanceYourCalm {
				t.Errorf("GOAWAY with %v; want ENHANCE_YOUR_CALM", f.ErrCode)
			}
			return
		}
	}
}

// TestLogOfRefusalsIsBounded: however many addresses are refused, the record of logged callers stays small.
func TestLogOfRefusalsIsBounded(t *testing.T) {
	g := guard(t, nil, grpcserver.Limits{}, nil)
	peers := make([]string, 10_000)
	for i := range peers {
		peers[i] = fmt.Sprint("2001:db8::", i)
	}
	if n := g.server.RefusalPeers(peers); n > 4096 {
		t.Errorf("%d peers are remembered; want 4096 at most", n)
	}
	if n := strings.Count(g.log.String(), "refused a caller"); n != 4096 {
		t.Errorf("%d lines are logged; want 4096", n)
	}
	g.clock.Step(2 * time.Minute)
	if n := g.server.RefusalPeers([]string{"192.0.2.1"}); n != 1 {
		t.Errorf("two minutes later %d peers are remembered; want 1", n)
	}
	if got := g.refused("handshake"); got != 10_001 {
		t.Errorf("%d refusals are counted; want 10001", got)
	}
}
