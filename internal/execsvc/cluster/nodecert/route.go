package nodecert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// route is one connection configuration: an address, its CAs, and credentials. It is immutable, and replaced as a
// whole.
type route struct {
	server  *url.URL
	rt      http.RoundTripper
	idle    *http.Transport
	conns   *connrotation.ConnectionTracker
	retired atomic.Bool
	// cert is the client certificate. Nil: other credentials are used.
	cert *tls.Certificate
	// renew is when cert must be renewed.
	renew time.Time
	// credentials reports whether there are any credentials.
	credentials bool
}

// errRetired is returned to requests that were about to use a replaced kubeconfig.
var errRetired = errors.New("the kubeconfig has just changed")

// newRoute makes the route of a kubeconfig. cert is presented instead of the one in config.
func newRoute(config *rest.Config, cert *tls.Certificate, dial Dial) (*route, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the server's address: %w", err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("the certificates of the kubeconfig: %w", err)
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	r := &route{server: server, cert: cert, conns: connrotation.NewConnectionTracker()}
	if cert != nil {
		r.renew = renewAt(cert)
		tlsConfig.Certificates, tlsConfig.GetClientCertificate = nil, r.present
	}
	r.idle = utilnet.SetTransportDefaults(&http.Transport{
		Proxy: config.Proxy, TLSHandshakeTimeout: 10 * time.Second, TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: 25,
		DialContext: r.dialer(dial), DisableCompression: config.DisableCompression,
	})
	if r.rt, err = rest.HTTPWrappersForConfig(config, r.idle); err != nil {
		return nil, fmt.Errorf("the credentials of the kubeconfig: %w", err)
	}
	return r, nil
}

// present returns the certificate while it is valid: an expired one would only break the handshake.
func (r *route) present(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if expired(r.cert, time.Now()) {
		return &tls.Certificate{}, nil
	}
	return r.cert, nil
}

func (r *route) dialer(dial Dial) Dial {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn = r.conns.Track(conn)
		if r.retired.Load() {
			_ = conn.Close()
			return nil, errRetired
		}
		return conn, nil
	}
}

// RoundTrip sends the request to the route's server, instead of to the request's address.
func (r *route) RoundTrip(request *http.Request) (*http.Response, error) {
	sent, target := request.Clone(request.Context()), *request.URL
	target.Scheme, target.Host = r.server.Scheme, r.server.Host
	if prefix := strings.TrimRight(r.server.Path, "/"); prefix != "" {
		target.Path = prefix + target.Path
		if target.RawPath != "" {
			target.RawPath = strings.TrimRight(r.server.EscapedPath(), "/") + target.RawPath
		}
	}
	sent.URL, sent.Host = &target, ""
	return r.rt.RoundTrip(sent)
}

// retire closes the connections, and prevents new ones.
func (r *route) retire() {
	r.retired.Store(true)
	r.conns.CloseAll()
	r.idle.CloseIdleConnections()
}
