package passthrough_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/podstream/podstream/internal/passthrough"
)

// TestSilentAddresses: connections that send no ClientHello refuse no other one, of their own address or of another
// one: the oldest of them are closed.
func TestSilentAddresses(t *testing.T) {
	at, refused := start(t, "127.0.0.1:1", 8)
	relays := func(from byte) {
		t.Helper()
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}
		if c, err := tls.DialWithDialer(dialer, "tcp", at, &tls.Config{ServerName: "example.com", InsecureSkipVerify: true}); err == nil {
			c.Close()
		}
		for {
			switch got := <-refused; got {
			case passthrough.ReasonDisplaced:
			case passthrough.ReasonDial:
				return
			default:
				t.Fatalf("127.0.0.%d: %s, want %s", from, got, passthrough.ReasonDial)
			}
		}
	}
	var first *net.TCPConn
	for i := range 6 {
		if c := dial(t, at, 2); i == 0 {
			first = c
		}
	}
	ended(t, "the oldest silent connection", first)
	relays(2)
	for i := range 12 {
		dial(t, at, byte(10+i))
	}
	relays(2)
	relays(3)
}

// TestAddressLeavesPlaces: an address gets no more places than are free, so several of them don't take all.
func TestAddressLeavesPlaces(t *testing.T) {
	address, accepted := listening(t)
	at, refused := start(t, address, 8) // of 8 places
	hello := capture(t, &tls.Config{ServerName: "example.com"})
	enter := func(from byte) bool {
		_, _ = dial(t, at, from).Write(hello) // It may have been closed.
		select {
		case c := <-accepted:
			t.Cleanup(func() { c.Close() })
			return true
		case got := <-refused:
			if got != passthrough.ReasonLimit {
				t.Errorf("refused with %s", got)
			}
			return false
		}
	}
	n := 0
	for range 8 {
		if enter(2) {
			n++
		}
	}
	if n != 4 {
		t.Errorf("an address gets %d places; want 4", n)
	}
	for range 8 {
		enter(3)
	}
	if !enter(4) {
		t.Error("a third address gets no place")
	}
}

// TestAddressKey: an IPv6 network of 64 bits counts as one address.
func TestAddressKey(t *testing.T) {
	for ip, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::2:0:0:1": "2001:db8::/64",
	} {
		if got := passthrough.AddressKey(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}); got != want {
			t.Errorf("%s counts as %s; want %s", ip, got, want)
		}
	}
}
