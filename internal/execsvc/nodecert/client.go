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
	"k8s.io/client-go/util/certificate"
)

// ClientConfig says how the API server is reached.
type ClientConfig struct {
	// Node is this node's name.
	Node string
	// Kubeconfig is the file that says it, and that needn't be there yet. BootstrapKubeconfig is the file by which a first certificate is asked
	// for while there is none; empty: none is asked for.
	Kubeconfig, BootstrapKubeconfig string
	// CertDir is where certificates and keys are kept.
	CertDir string
	// Rotate renews the certificate, if the kubeconfig has one, before it expires.
	Rotate bool
	// QPS and Burst bound the requests of each client that is made of Config. Zero QPS means no bound.
	QPS   float32
	Burst int
	// ContentType is how requests are encoded. Empty means JSON.
	ContentType string
	// UserAgent is what requests say that they come from. Empty means client-go's own.
	UserAgent string
	// Dial opens the connections. Nil means the network.
	Dial Dial
	// Metrics takes the metrics. Nil means none.
	Metrics prometheus.Registerer
	// Logger is told of certificates and of troubles. Nil discards.
	Logger *slog.Logger
}

// Client is how the API server is reached: it sends requests by what the files say now. It is safe for concurrent use.
type Client struct {
	cfg     ClientConfig
	issuer  issuer
	metrics clientMetrics
	// way is the trouble of reading files, asking that of getting a certificate.
	way, asking trouble
	backoff     backoff

	mu sync.Mutex
	// route is what the files said last when they were good. Nil: they never were.
	route *route
	// paths are the files that route stands on, seen their fingerprint, looked when it was taken.
	paths  []string
	seen   string
	looked time.Time
	// problem is why the files can't be used now.
	problem error
}

// placeholder is the host of requests for which none was known when their client was made.
const placeholder = "https://api-server"

// ErrNoServer is why requests fail while it isn't known how to reach the API server.
var ErrNoServer = errors.New("it isn't known yet how to reach the API server")

// errNoKubeconfig is the usual reason.
var errNoKubeconfig = errors.New("there is no kubeconfig")

// NewClient returns a Client that has looked at the files once.
func NewClient(cfg ClientConfig) *Client {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	c := &Client{
		cfg: cfg,
		issuer: issuer{
			prefix: "kubelet-client", dir: cfg.CertDir, signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
			usages: certificate.DefaultKubeletClientGetUsages, log: cfg.Logger,
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

// Config is for clients of the API server, as many as need one of their own. It is good at once and stays so, whatever the files say later.
func (c *Client) Config() *rest.Config {
	config := &rest.Config{Host: placeholder, Transport: c, QPS: c.cfg.QPS, Burst: c.cfg.Burst, UserAgent: c.cfg.UserAgent}
	if r := c.look(lookAtMost); r != nil {
		config.Host = r.server.Scheme + "://" + r.server.Host
	}
	if config.QPS == 0 {
		config.QPS = -1 // Zero means something else to client-go.
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
	return r.RoundTrip(request)
}

// CloseConnections has the next requests open new ones: for when the ones that are open seem dead.
func (c *Client) CloseConnections() {
	if r := c.look(lookAtMost); r != nil {
		r.conns.CloseAll()
	}
}

// look is the route that the files say now, if they were looked at longer ago than that; else the one from then.
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
		// That is how a node begins: no trouble.
		c.cfg.Logger.Info("there is no kubeconfig", "path", c.cfg.Kubeconfig, "bootstrap", c.cfg.BootstrapKubeconfig)
	case err != nil:
		c.seen = "" // It may be for something else than the files that it is no good.
		c.way.is("the kubeconfig can't be used", err)
	default:
		c.way.over()
		if c.route != nil {
			c.cfg.Logger.Info("how the API server is reached has changed; connections are opened anew", "server", next.server.Host)
			c.route.retire()
		}
		c.route = next
	}
	return c.route
}

func (c *Client) fingerprint() string {
	return fingerprint(append(slices.Clone(c.paths), c.cfg.Kubeconfig, c.issuer.currentPath())...)
}

// read makes a route of what the files say, and remembers which files it read.
func (c *Client) read(now time.Time) (*route, error) {
	var said *kubeconfig
	var err error
	// What changes while it is read is read again, or at the next look.
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

// orRenewed is the younger of the kubeconfig's certificate, if it has one, and the one that was renewed.
func (c *Client) orRenewed(cert *tls.Certificate, now time.Time) *tls.Certificate {
	if cert == nil {
		return nil
	}
	renewed, err := c.issuer.current()
	if err != nil {
		c.cfg.Logger.Warn("the renewed client certificate can't be read; going on with that of the kubeconfig", "error", err)
	}
	return younger(cert, renewed, now)
}
