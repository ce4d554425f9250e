package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The end of each direction is carried by itself, with all data before it.
func TestHalfClose(t *testing.T) {
	large, late := strings.Repeat("0123456789abcdef", 100_000), make(chan string, 1)
	r := run(t, &pod{serve: func(port int32, s stream) error {
		if port == 80 { // The client ends first.
			text, err := all(s)
			if err != nil {
				return err
			}
			for piece := range slices.Chunk([]byte("read "+text), 60_000) {
				if err := s.Send(data(string(piece))); err != nil {
					return err
				}
			}
			return nil
		}
		if err := errors.Join(s.Send(data("at once")), s.Send(closed)); err != nil { // The pod ends first.
			return err
		}
		text, err := all(s)
		late <- text
		return err
	}}, ":http", ":81")
	conn := r.dial(80)
	go func() {
		_, _ = io.WriteString(conn, large)
		_ = conn.CloseWrite()
	}()
	if text, err := io.ReadAll(conn); err != nil || string(text) != "read "+large {
		t.Errorf("the client that ends first reads %d bytes, %v", len(text), err)
	}
	conn = r.dial(81)
	if text, err := io.ReadAll(conn); err != nil || string(text) != "at once" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := io.WriteString(conn, large); err != nil {
		t.Errorf("after the pod's end: %v", err)
	}
	_ = conn.CloseWrite()
	if text := <-late; text != large {
		t.Errorf("after its own end the pod reads %d bytes", len(text))
	}
	r.out.await(`(?s)Handling connection for \d+\n.*Handling connection for \d+\n`)
}

// A connection that fails is reported, and its client sees that it broke; others go on.
func TestConnectionFails(t *testing.T) {
	r := run(t, &pod{serve: func(port int32, s stream) error {
		if port == 81 {
			if _, err := s.Recv(); err != nil {
				return err
			}
			return status.Error(codes.FailedPrecondition, "port 81 of pod default/web: connection refused")
		}
		return s.Send(data("fine"))
	}}, ":80", ":81")
	conn := r.dial(81)
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reads %v; want a reset", err)
	}
	if got := <-r.failed; !strings.Contains(got, "81 ") || !strings.Contains(got, "connection refused") {
		t.Errorf("reported: %s", got)
	}
	if text, err := io.ReadAll(r.dial(80)); err != nil || string(text) != "fine" {
		t.Errorf("another connection: %q, %v", text, err)
	}
}

// A pod that ends the connection although its client still sends loses none of its own data.
func TestPodEndsAll(t *testing.T) {
	r := run(t, &pod{serve: func(_ int32, s stream) error { return s.Send(data("answer")) }}, ":80")
	conn := r.dial(80)
	go func() { _, _ = io.WriteString(conn, strings.Repeat("x", 1<<20)) }()
	if text, err := io.ReadAll(conn); err != nil || string(text) != "answer" {
		t.Errorf("%q, %v", text, err)
	}
}

// A client that resets its connection ends the call, and not as an end of its data.
func TestClientResets(t *testing.T) {
	ended := make(chan error, 1)
	r := run(t, &pod{serve: func(_ int32, s stream) error {
		if err := s.Send(data("hello")); err != nil {
			return err
		}
		_, err := all(s)
		ended <- err
		return err
	}}, ":80")
	conn := r.dial(80)
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetLinger(0)
	_ = conn.Close()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the pod's side ends with %v", err)
	}
}

// The pod's end ends everything.
func TestPodEnds(t *testing.T) {
	end := make(chan error)
	r := run(t, &pod{end: end, serve: func(_ int32, s stream) error {
		<-s.Context().Done()
		return nil
	}}, ":80")
	conn := r.dial(80)
	r.out.await("Handling connection")
	end <- status.Error(codes.FailedPrecondition, "the pod has ended")
	if err := <-r.result; status.Code(err) != codes.FailedPrecondition {
		t.Errorf("it ends with %v", err)
	}
	_, _ = io.ReadAll(conn) // It ends.
}

// More connections than the bound wait for a place.
func TestBound(t *testing.T) {
	release := make(chan struct{})
	var mu sync.Mutex
	now, most := 0, 0
	r := run(t, &pod{serve: func(_ int32, s stream) error {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		select {
		case <-release:
		case <-s.Context().Done():
		}
		mu.Lock()
		now--
		mu.Unlock()
		return s.Send(data("x"))
	}}, ":80")
	var conns []*net.TCPConn
	for range maxConnections + 5 {
		conns = append(conns, r.dial(80))
	}
	r.out.await(fmt.Sprintf(`(Handling connection for \d+\n){%d}`, maxConnections))
	close(release)
	for _, conn := range conns {
		if text, err := io.ReadAll(conn); err != nil || string(text) != "x" {
			t.Errorf("%q, %v", text, err)
		}
		_ = conn.Close()
	}
	if most > maxConnections {
		t.Errorf("%d connections at once", most)
	}
}

// Errors before anything is forwarded end it.
func TestRunFails(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := run(t, &pod{}, fmt.Sprintf("%d:80", taken.Addr().(*net.TCPAddr).Port))
	if err := <-r.result; !errors.As(err, new(*LocalError)) || !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "port 80 of the pod") {
		t.Errorf("a port that is in use: %v", err)
	}
	r = run(t, &pod{}, ":80", ":smtp")
	if err := <-r.result; status.Code(err) != codes.NotFound {
		t.Errorf("an unknown port: %v", err)
	}
}
