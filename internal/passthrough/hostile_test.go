package passthrough_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/passthrough"
)

// patience is the time limit of a test for an immediate event.
const patience = 20 * time.Second

// listening is a target that passes its connections on.
func listening(t *testing.T) (address string, accepted chan *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = make(chan *net.TCPConn, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
		for len(accepted) > 0 {
			(<-accepted).Close()
		}
	})
	return l.Addr().String(), accepted
}

func dial(t *testing.T, at string, from byte) *net.TCPConn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}).Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// relayed returns both ends of a connection through a server. The target has read the ClientHello.
func relayed(t *testing.T) (client, target *net.TCPConn) {
	t.Helper()
	address, accepted := listening(t)
	at, _ := start(t, address, 8)
	hello := capture(t, &tls.Config{ServerName: "example.com"})
	client = dial(t, at, 1)
	if _, err := client.Write(hello); err != nil {
		t.Fatal(err)
	}
	target = <-accepted
	t.Cleanup(func() { target.Close() })
	if err := target.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(target, make([]byte, len(hello))); err != nil {
		t.Fatal(err)
	}
	return client, target
}

// ended waits until the connection ends, and fails if it doesn't.
func ended(t *testing.T, what string, c net.Conn) {
	t.Helper()
	var timeout net.Error
	if _, err := io.Copy(io.Discard, c); errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%s is open still", what)
	}
}

// TestHalfClose: after one side has sent its last byte, the other one still sends, in both directions.
func TestHalfClose(t *testing.T) {
	for _, clientFirst := range []bool{true, false} {
		one, other := relayed(t)
		if !clientFirst {
			one, other = other, one
		}
		if _, err := one.Write([]byte("last")); err != nil || one.CloseWrite() != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(other); string(got) != "last" || err != nil {
			t.Errorf("client first %v: %q, %v", clientFirst, got, err)
		}
		if _, err := other.Write([]byte("answer")); err != nil || other.CloseWrite() != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(one); string(got) != "answer" || err != nil {
			t.Errorf("client first %v: the answer is %q, %v", clientFirst, got, err)
		}
	}
}

// TestSilentTarget: a target that neither answers nor closes keeps no place of a client that has left.
func TestSilentTarget(t *testing.T) {
	address, accepted := listening(t)
	at, refused := start(t, address, 1)
	hello := capture(t, &tls.Config{ServerName: "example.com"})
	deadline := time.Now().Add(patience)
	for entered := 0; entered < 3; {
		client := dial(t, at, 1)
		_, _ = client.Write(hello) // It may have been closed.
		select {
		case target := <-accepted:
			defer target.Close()
			entered++
		case <-refused:
			if time.Now().After(deadline) {
				t.Fatalf("client %d has no place", entered)
			}
			time.Sleep(20 * time.Millisecond)
		}
		client.Close()
	}
}

// TestPeerDoesNotRead: a connection to which bytes can't be sent, in either direction, ends.
func TestPeerDoesNotRead(t *testing.T) {
	for _, fromTarget := range []bool{true, false} {
		client, target := relayed(t)
		from := client
		if fromTarget {
			from = target
		}
		chunk := make([]byte, 1<<20)
		for {
			if _, err := from.Write(chunk); err != nil {
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Errorf("from the target %v: the connection is open still", fromTarget)
				}
				break
			}
		}
	}
}

// TestIdleConnectionStays: a connection on which nothing is sent outlasts every time limit, as a watch may be idle.
func TestIdleConnectionStays(t *testing.T) {
	client, target := relayed(t)
	time.Sleep(2500 * time.Millisecond) // more than twice the limits of the test's server
	if _, err := target.Write([]byte("event")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(client, got); err != nil || string(got) != "event" {
		t.Errorf("the client gets %q, %v", got, err)
	}
}

// TestStop: Serve ends at once, whatever its connections do: one has sent no ClientHello, one is idle, one half-closed,
// and the peer of one doesn't read.
func TestStop(t *testing.T) {
	address, accepted := listening(t)
	s, err := passthrough.New(passthrough.Config{
		Targets: map[string]string{"example.com": address}, MaxConnections: 32, MaxPerAddress: 16, MaxHellos: 8,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	hello := capture(t, &tls.Config{ServerName: "example.com"})
	clients := []*net.TCPConn{dial(t, l.Addr().String(), 1)}
	for range 3 {
		c := dial(t, l.Addr().String(), 1)
		if _, err := c.Write(hello); err != nil {
			t.Fatal(err)
		}
		target := <-accepted
		defer target.Close()
		clients = append(clients, c)
	}
	if err := clients[2].CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := clients[3].SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = clients[3].Write(make([]byte, 1<<20))
	}
	began := time.Now()
	cancel()
	if err := <-served; err != nil || time.Since(began) > 2*time.Second {
		t.Errorf("Serve ends with %v after %v", err, time.Since(began))
	}
	for i, c := range clients {
		ended(t, "connection "+string(rune('0'+i)), c)
	}
}

// TestServerNames: a name that no ClientHello can have is an error of the configuration.
func TestServerNames(t *testing.T) {
	for name, want := range map[string]bool{
		"example.com": true, "Example.com": true, "xn--bcher-kva.example": true,
		"example.com.": false, "bücher.example": false, "10.0.0.1": false, "::1": false, "*.example.com": false, "": false, "a b": false,
	} {
		_, err := passthrough.New(passthrough.Config{Targets: map[string]string{name: "x:1"}, MaxConnections: 1, MaxPerAddress: 1, MaxHellos: 1})
		if (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
