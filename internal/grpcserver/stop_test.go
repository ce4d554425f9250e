package grpcserver_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/grpcserver"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestStopIsQuick: neither a Watch of health, nor an idle stream of reflection, nor a silent connection delays the
// end; callers get GOAWAY, and health reports that it stops.
func TestStopIsQuick(t *testing.T) {
	files := newTLSDir(t, "clients: []\n")
	g := guard(t, files.access(nil), grpcserver.Limits{}, nil)
	conn := g.dial("unix://"+g.unix, insecure.NewCredentials())
	health, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := health.Recv(); err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("health is %v, %v; want SERVING", resp.GetStatus(), err)
	}
	idle, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Recv(); err != nil {
		t.Fatal(err)
	}
	silent := []net.Conn{g.raw("tcp", g.tcp), g.raw("unix", g.unix)}
	until(t, "the silent connections are accepted", func() bool {
		n := g.server.Connections()
		return n["127.0.0.1"] == 1 && n["uid:0"] == 2
	})
	idleEnds := make(chan error, 1)
	framer := speak(t, g.raw("unix", g.unix))
	pinged(t, framer)
	go func() { idleEnds <- awaitGoAway(framer) }()

	began := time.Now()
	g.stop()
	if took := time.Since(began); took >= 5*time.Second { // the grace period of calls that are under way
		t.Errorf("the server took %v to end; want it at once", took)
	}
	resp, err := health.Recv()
	if err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health's last word is %v, %v; want NOT_SERVING", resp.GetStatus(), err)
	}
	if _, err := health.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the Watch of health ends with %v; want UNAVAILABLE", err)
	}
	if _, err := idle.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of reflection ends with %v; want UNAVAILABLE", err)
	}
	for _, conn := range silent {
		closed(t, "a silent connection", conn)
	}
	if err := <-idleEnds; err != nil {
		t.Errorf("an idle connection ends with %v; want a GOAWAY without error", err)
	}
}

// pinged waits for the answer to a ping: from then on the server sends the connection a GOAWAY when it stops. It
// acknowledges the settings a moment before.
func pinged(t *testing.T, framer *http2.Framer) {
	t.Helper()
	if err := framer.WritePing(false, [8]byte{1}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("the answer to a ping: %v; want it", err)
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			return
		}
	}
}

// awaitGoAway answers pings, as every client does, until the server sends GOAWAY.
func awaitGoAway(framer *http2.Framer) error {
	var goAway *http2.GoAwayFrame
	for {
		frame, err := framer.ReadFrame()
		if err != nil && goAway != nil && goAway.ErrCode == http2.ErrCodeNo {
			return nil
		}
		if err != nil {
			return fmt.Errorf("GOAWAY %v, then %w", goAway, err)
		}
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			goAway = f
		case *http2.PingFrame:
			_ = framer.WritePing(true, f.Data)
		}
	}
}

// TestStopWithoutAnswer: a stopped client process doesn't delay the end, while a call under way has its time.
func TestStopWithoutAnswer(t *testing.T) {
	g := guard(t, nil, grpcserver.Limits{}, nil)
	framer := speak(t, g.raw("unix", g.unix))
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: watchHeader(t), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteData(1, true, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := frame.(*http2.DataFrame); ok && f.StreamID == 1 {
			break // Its stream is served; it never reads again.
		}
	}
	client := g.local()
	answered := make(chan error, 1)
	go func() {
		_, err := client.GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Name: slowPod}})
		answered <- err
	}()
	until(t, "the slow call is under way", func() bool { return g.service.slow.Load() })

	began := time.Now()
	g.stop()
	if took := time.Since(began); took < slowCall || took >= 5*time.Second {
		t.Errorf("the server took %v to end; want it soon after the last call, which takes %v", took, slowCall)
	}
	if err := <-answered; err != nil {
		t.Errorf("the call that was under way: %v; want it answered", err)
	}
}
