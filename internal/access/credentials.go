package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
)

// AuthInfo is the result of a connection's handshake. Each connection has its own.
type AuthInfo struct {
	credentials.CommonAuthInfo

	// Peer is as Caller.Peer.
	Peer string
	// Unix has the uid, gid and pid of the process that made the connection. Nil over TLS.
	Unix *unix.Ucred
	// Elsewhere is set if the process that made the connection has another mount namespace than the daemon, as in a
	// container, or if that isn't known.
	Elsewhere bool
	// Certificates is the client's chain, its own first. Nil on a Unix socket.
	Certificates []*x509.Certificate

	expires time.Time
	// The rules and CAs of the last check of the connection, and the caller under them. verified is nil on a Unix
	// socket.
	caller   Caller
	rules    atomic.Pointer[rules]
	verified atomic.Pointer[verified]
}

// AuthType is "tls" or "unix".
func (i *AuthInfo) AuthType() string {
	if i.Unix == nil {
		return "tls"
	}
	return "unix"
}

// Caller is the caller under the rules at the time when the connection was accepted.
func (i *AuthInfo) Caller() Caller { return i.caller }

// identity is as Caller.Identity. name is its form in messages.
func (i *AuthInfo) identity() (identity, name string) {
	if i.Unix != nil {
		return uidIdentity(i.Unix.Uid), fmt.Sprintf("uid %d", i.Unix.Uid)
	}
	switch c := i.Certificates[0]; {
	case c.Subject.CommonName != "":
		return c.Subject.CommonName, "CN=" + c.Subject.CommonName
	case len(c.URIs) > 0:
		return c.URIs[0].String(), "URI " + c.URIs[0].String()
	case len(c.DNSNames) > 0:
		return c.DNSNames[0], "DNS name " + c.DNSNames[0]
	default:
		return "", "a certificate without a name"
	}
}

// TransportCredentials are for a gRPC server on Unix sockets and, if there are TLS files, TCP. The connection's
// deadline (grpc.ConnectionTimeout) limits the handshake.
func (a *Access) TransportCredentials() credentials.TransportCredentials {
	return &transport{a, credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return a.trust.Load().config, nil },
	})}
}

type transport struct {
	access *Access
	tls    credentials.TransportCredentials
}

func (t *transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	info := &AuthInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	var err error
	if overTCP(conn) {
		conn, err = t.handshakeTLS(conn, info)
	} else if info.Unix, err = peerCred(conn); err == nil {
		info.Peer, info.Elsewhere = uidIdentity(info.Unix.Uid), isElsewhere(conn, info.Unix.Pid)
	}
	if err != nil {
		return nil, nil, err
	}
	t.access.recordRules(info)
	return conn, info, nil
}

func (t *transport) handshakeTLS(conn net.Conn, info *AuthInfo) (net.Conn, error) {
	// Loaded before the handshake loads its own: if the files change in between, Recheck verifies once more.
	trust := t.access.trust.Load()
	if trust == nil {
		return nil, errors.New("there are no TLS files to serve TCP with")
	}
	var err error
	if info.Peer, err = remoteIP(conn); err != nil {
		return nil, err
	}
	conn, auth, err := t.tls.ServerHandshake(conn)
	if err != nil {
		return nil, err
	}
	info.Certificates = auth.(credentials.TLSInfo).State.PeerCertificates
	v, err := trust.verify(info.Certificates, t.access.cfg.Clock.Now())
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the CAs have changed during the handshake: %w", err)
	}
	info.expires = v.expires
	info.verified.Store(v)
	return conn, nil
}

// ClientHandshake always fails: these are a server's credentials.
func (*transport) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

func (*transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix or tls"}
}

func (t *transport) Clone() credentials.TransportCredentials { return t.access.TransportCredentials() }

// OverrideServerName does nothing on a server.
func (*transport) OverrideServerName(string) error { return nil }
