package door_test

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/podctl/web/door"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestListener: a new connection displaces the oldest one that isn't trusted, and none that is.
func TestListener(t *testing.T) {
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := door.NewListener(inner, 2)
	defer l.Close()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp4", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	accept := func() net.Conn {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	closed := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := c.Read(make([]byte, 1))
		e, ok := err.(net.Error) //nolint:errorlint // A connection's own error.
		return err != nil && (!ok || !e.Timeout())
	}
	trusted, silent := dial(), dial()
	a, _ := accept(), accept()
	door.Trust(door.ConnContext(t.Context(), a))
	third := dial()
	b := accept()
	if !closed(silent) {
		t.Error("the silent connection is open")
	}
	door.Trust(door.ConnContext(t.Context(), b))
	// Both are trusted: the next one is refused, and the one after it accepted once one has closed.
	refused := dial()
	accepted := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Errorf("Accept: %v", err)
		}
		accepted <- c
	}()
	if !closed(refused) {
		t.Error("a third connection is accepted beside two trusted ones")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if !closed(third) {
		t.Error("a closed connection is open")
	}
	dial()
	c := <-accepted
	defer c.Close()
	if _, err := a.Write([]byte("x")); err != nil {
		t.Errorf("the trusted connection: %v", err)
	}
	if _, err := trusted.Read(make([]byte, 1)); err != nil {
		t.Errorf("the trusted connection: %v", err)
	}
	door.Trust(t.Context()) // Without a connection it does nothing.
}
