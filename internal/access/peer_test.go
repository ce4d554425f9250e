package access

import (
	"crypto/x509"
	"net"
	"testing"
	"time"
)

// fakeConn is a connection that has only addresses.
type fakeConn struct {
	net.Conn
	local, remote net.Addr
}

func (c fakeConn) LocalAddr() net.Addr  { return c.local }
func (c fakeConn) RemoteAddr() net.Addr { return c.remote }

// TestPeer: one host is one peer, in every form of its address; an unknown peer is refused.
func TestPeer(t *testing.T) {
	tcp := func(ip, zone string) net.Conn {
		a := &net.TCPAddr{IP: net.ParseIP(ip), Port: 4711, Zone: zone}
		return fakeConn{local: a, remote: a}
	}
	for _, tc := range []struct {
		conn net.Conn
		want string
	}{
		{tcp("192.0.2.1", ""), "192.0.2.1"},
		{tcp("::ffff:192.0.2.1", ""), "192.0.2.1"},
		{tcp("2001:db8::1", ""), "2001:db8::1"},
		{tcp("fe80::1", "eth0"), "fe80::1"},
		{fakeConn{local: &net.UDPAddr{}, remote: &net.UDPAddr{}}, ""},
		{fakeConn{local: &net.UnixAddr{Net: "unix"}}, ""},
	} {
		arrival, err := Local().Arrive(tc.conn)
		if got := arrival.Peer; got != tc.want || arrival.Owner || arrival.Stranger || (err == nil) != (tc.want != "") {
			t.Errorf("the peer of %+v is %+v, %v; want %q", tc.conn, arrival, err, tc.want)
		}
	}
}

// TestExpiryOfChain: a connection is valid as long as one of its chains, and a chain as long as all of it.
func TestExpiryOfChain(t *testing.T) {
	at := func(hours int) *x509.Certificate {
		return &x509.Certificate{NotAfter: time.Unix(int64(hours)*3600, 0)}
	}
	got := expiry([][]*x509.Certificate{{at(9), at(2), at(20)}, {at(9), at(5), at(7)}})
	if want := at(5).NotAfter; !got.Equal(want) {
		t.Errorf("the chains end at %v; want %v, when the last of them does, with the first of its certificates", got, want)
	}
}
