package nodecert

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/errorbody"
)

// ClientConfig configures a Client.
type ClientConfig struct {
	// Node is this node's name.
	Node string
	// Kubeconfig is the path of the kubeconfig, which doesn't have to exist yet. BootstrapKubeconfig is the
	// kubeconfig that is used to request a first certificate; empty: none is requested.
	Kubeconfig, BootstrapKubeconfig string
	// CertDir is the directory of certificates and keys.
	CertDir string
	// Rotate renews the certificate, if the kubeconfig has one, before it expires.
	Rotate bool
	// QPS and Burst limit the requests of each client that is made from Config. Zero QPS means no limit.
	QPS   float32
	Burst int
	// ContentType is the encoding of requests. Empty means JSON.
	ContentType string
	// UserAgent is the User-Agent of requests. Empty means client-go's own.
	UserAgent string
	// Dial opens the connections. Nil means the network.
	Dial Dial
	// Metrics registers the metrics. Nil means none.
	Metrics prometheus.Registerer
	// Logger receives new certificates and failures. Nil discards.
	Logger *slog.Logger
}

// Client sends requests to the API server as the files say now. It is safe for concurrent use.
type Client struct {
	cfg     ClientConfig
	issuer  issuer
	metrics clientMetrics
	// way is a failure to read the files, asking a failure to get a certificate.
	way, asking trouble
	backoff     backoff

	mu sync.Mutex
	// route is the last good content of the files. Nil: they were never good.
	route *route
	// paths are the files of route, seen is their fingerprint, and looked the time when it was taken.
	paths  []string
	seen   string
	looked time.Time
	// problem is the reason why the files can't be used now.
	problem error
}

// placeholder is the host in requests of clients that were made before a host was known.
const placeholder = "https://api-server"

// ErrNoServer is returned while no usable kubeconfig exists.
var ErrNoServer = errors.New("it isn't known yet how to reach the API server")

// errNoKubeconfig is the usual cause.
var errNoKubeconfig = errors.New("there is no kubeconfig")

// NewClient returns a Client that has read the files once.
func NewClient(cfg ClientConfig) *Client {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	c := &Client{
		cfg: cfg,
		issuer: issuer{
			prefix: "kubelet-client", dir: cfg.CertDir, signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
			usages: usagesFor(certificatesv1.UsageClientAuth), log: cfg.Logger,
		},
		way: trouble{log: cfg.Logger}, asking: trouble{log: cfg.Logger},
	}
	c.metrics = newClientMetrics(cfg.Metrics, func() *tls.Certificate {
		if r := c.look(lookAtMost); r != nil {
			return r.cert
		}
		return nil
	})
	c.look(0)
	return c
}

// Config returns a configuration for clients of the API server. It can be used at once and stays valid, whatever the
// files say later.
func (c *Client) Config() *rest.Config {
	config := &rest.Config{Host: placeholder, Transport: c, QPS: c.cfg.QPS, Burst: c.cfg.Burst, UserAgent: c.cfg.UserAgent}
	if r := c.look(lookAtMost); r != nil {
		config.Host = r.server.Scheme + "://" + r.server.Host
	}
	if config.QPS == 0 {
		config.QPS = -1 // client-go would replace zero by its default.
	}
	if c.cfg.ContentType != "" {
		config.ContentType, config.AcceptContentTypes = c.cfg.ContentType, c.cfg.ContentType+",application/json"
	}
	return config
}

// RoundTrip is part of http.RoundTripper.
func (c *Client) RoundTrip(request *http.Request) (*http.Response, error) {
	r := c.look(lookAtMost)
	if r == nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrNoServer, c.problem)
	}
	return errorbody.Bound(r.RoundTrip(request))
}

// look returns the route of the files. It reads them again if the last reading is older than atMost.
func (c *Client) look(atMost time.Duration) *route {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if since := now.Sub(c.looked); since >= 0 && since < atMost {
		return c.route
	}
	c.looked = now
	if seen := c.fingerprint(); seen == c.seen {
		return c.route
	}
	next, err := c.read(now)
	c.problem = err
	switch {
	case errors.Is(err, errNoKubeconfig):
		// A new node has none: this isn't a failure.
		c.cfg.Logger.Info("there is no kubeconfig", "path", c.cfg.Kubeconfig, "bootstrap", c.cfg.BootstrapKubeconfig)
	case err != nil:
		c.seen = "" // The failure may have a cause outside of the files.
		c.way.is("the kubeconfig can't be used", err)
	default:
		c.way.over()
		if c.route != nil {
			c.cfg.Logger.Info("the kubeconfig has changed; new connections are opened", "server", next.server.Host)
			c.route.retire()
		}
		c.route = next
	}
	return c.route
}

func (c *Client) fingerprint() string {
	return fingerprint(append(slices.Clone(c.paths), c.cfg.Kubeconfig, c.issuer.currentPath())...)
}

// read makes a route from the files, and records which files it read.
func (c *Client) read(now time.Time) (*route, error) {
	var said *kubeconfig
	var err error
	// A file that changes meanwhile is read again now, or at the next look.
	for range 3 {
		before := c.fingerprint()
		said, c.paths, err = readKubeconfig(c.cfg.Kubeconfig)
		if c.cfg.Rotate && err == nil {
			said.cert = c.orRenewed(said.cert, now)
		}
		if c.seen = before; c.fingerprint() == before {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) && !exists(c.cfg.Kubeconfig) {
		return nil, errNoKubeconfig
	} else if err != nil {
		return nil, err
	}
	r, err := newRoute(said.config, said.cert, c.cfg.Dial)
	if err != nil {
		return nil, err
	}
	r.credentials = said.credentials
	return r, nil
}

// orRenewed returns the younger of the kubeconfig's certificate, if it has one, and the renewed one.
func (c *Client) orRenewed(cert *tls.Certificate, now time.Time) *tls.Certificate {
	if cert == nil {
		return nil
	}
	renewed, err := c.issuer.current()
	if err != nil {
		c.cfg.Logger.Warn("the renewed client certificate can't be read; the kubeconfig's is used", "error", err)
	}
	return younger(cert, renewed, now)
}
