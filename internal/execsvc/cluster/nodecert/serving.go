package nodecert

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

// ServingConfig configures the serving certificate of the node's API: one that the API server signs if Bootstrap,
// else the one in the files, else a self-signed one.
type ServingConfig struct {
	// Node is this node's name.
	Node string
	// CertFile and KeyFile are read again when they change. With Bootstrap they are used until a certificate was
	// signed.
	CertFile, KeyFile string
	// CertDir is the directory of certificates and keys.
	CertDir string

	Bootstrap bool
	// Client requests the certificate of Bootstrap. Addresses returns the addresses for it: those of the node's
	// status.
	Client    *apiclient.Client
	Addresses func() []v1.NodeAddress

	// MinVersion, CipherSuites and Curves are as in tls.Config. Zero means TLS 1.2, and Go's defaults.
	MinVersion   uint16
	CipherSuites []uint16
	Curves       []tls.CurveID

	// Metrics registers the metrics. Nil means none.
	Metrics prometheus.Registerer
	// Logger receives new certificates and failures. Nil discards.
	Logger *slog.Logger
}

// Serving is the certificate of the node's API. It is safe for concurrent use.
type Serving struct {
	cfg     ServingConfig
	issuer  issuer
	metrics servingMetrics
	// files is a failure to read or make a certificate, asking a failure to get one signed.
	files, asking trouble
	backoff       backoff

	mu   sync.Mutex
	cert *tls.Certificate
	// renew is when cert must be renewed, seen the fingerprint of its files, and looked the time when that was
	// taken.
	renew  time.Time
	seen   string
	looked time.Time
}

// errNoCertificate is why handshakes fail.
var errNoCertificate = errors.New("there is no certificate for the node's API")

// NewServing returns a Serving. Its certificate is read, or made, at first use.
func NewServing(cfg ServingConfig) *Serving {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Serving{
		cfg: cfg,
		issuer: issuer{
			prefix: "kubelet-server", dir: cfg.CertDir, signer: certificatesv1.KubeletServingSignerName,
			usages:   usagesFor(certificatesv1.UsageServerAuth),
			certFile: cfg.CertFile, keyFile: cfg.KeyFile, log: cfg.Logger,
		},
		files: trouble{log: cfg.Logger}, asking: trouble{log: cfg.Logger},
	}
	s.metrics = newServingMetrics(cfg.Metrics, func() *tls.Certificate { return s.look(lookAtMost) })
	return s
}

// TLSConfig returns the configuration for the listener of the node's API, without client CAs.
func (s *Serving) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion: cmp.Or(s.cfg.MinVersion, tls.VersionTLS12), CipherSuites: s.cfg.CipherSuites, CurvePreferences: s.cfg.Curves,
		GetCertificate: s.GetCertificate,
	}
}

// GetCertificate is for tls.Config. It fails while there is no certificate, or only an expired one.
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c := s.look(lookAtMost)
	switch {
	case c == nil:
		return nil, errNoCertificate
	case s.cfg.Bootstrap && expired(c, time.Now()):
		return nil, fmt.Errorf("%w: it expired at %v", errNoCertificate, c.Leaf.NotAfter)
	}
	return c, nil
}

// Run has the certificate signed, and renewed, until ctx ends. Without Bootstrap it only makes sure that there is
// one, and returns.
func (s *Serving) Run(ctx context.Context) {
	if s.look(0) == nil && s.cfg.Bootstrap {
		s.cfg.Logger.Info("connections to the node's API are refused until its certificate is signed", "signer", s.issuer.signer)
	}
	for s.cfg.Bootstrap && ctx.Err() == nil {
		pause := lookEvery
		if request := s.due(time.Now()); request == nil {
			s.asking.over()
			s.backoff.reset()
		} else if err := s.sign(ctx, request); err == nil || errors.Is(err, errOutdated) {
			continue
		} else if ctx.Err() == nil {
			s.metrics.failures.Inc()
			s.asking.is("the node's API: "+whatOf(err), err)
			pause = s.backoff.after(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// due returns the request to make now; nil: none.
func (s *Serving) due(now time.Time) *x509.CertificateRequest {
	request := servingRequest(s.cfg.Node, s.cfg.Addresses())
	if request == nil {
		return nil
	}
	c := s.look(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c == nil || now.After(s.renew) || !satisfies(c, request) {
		return request
	}
	return nil
}

// errOutdated: the node's addresses differ from those of the request.
var errOutdated = errors.New("the node's addresses have changed")

// sign has the API server sign a request. It gives up when the node's addresses no longer match the request.
func (s *Serving) sign(ctx context.Context, request *x509.CertificateRequest) error {
	before := s.look(0)
	if before != nil {
		s.issuer.dropUsed(before)
	}
	asking, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watchAddresses(asking, cancel, request)
	}()
	err := s.issuer.issue(asking, s.cfg.Client, request)
	cancel(nil)
	<-watched
	if err != nil {
		return err
	}
	s.issuer.drop()
	after := s.look(0)
	if still := s.due(time.Now()); after == nil || still != nil && reflect.DeepEqual(still, request) {
		return errors.New("the certificate doesn't match the request")
	}
	if before != nil {
		s.metrics.ages.Observe(time.Since(before.Leaf.NotBefore).Seconds())
	}
	return nil
}

// watchAddresses ends a request when the node's addresses change.
func (s *Serving) watchAddresses(asking context.Context, end context.CancelCauseFunc, request *x509.CertificateRequest) {
	for {
		select {
		case <-time.After(lookEvery):
		case <-asking.Done():
			return
		}
		if !reflect.DeepEqual(servingRequest(s.cfg.Node, s.cfg.Addresses()), request) {
			end(errOutdated)
			return
		}
	}
}

// look returns the certificate of the files. It reads them again if the last reading is older than atMost. While
// they are unusable it returns the last good one.
func (s *Serving) look(atMost time.Duration) *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if since := now.Sub(s.looked); since >= 0 && since < atMost {
		return s.cert
	}
	s.looked = now
	seen, own := fingerprint(s.paths()...), s.selfSigned()
	if seen == s.seen && !(own && now.After(s.renew)) {
		return s.cert
	}
	c, err := s.read(now)
	if s.seen = seen; own {
		s.seen = fingerprint(s.paths()...) // Reading may have written.
	}
	if err != nil {
		s.files.is("the certificate of the node's API can't be used", err)
		s.seen = "" // The failure may have a cause outside of the files.
	}
	if c != nil {
		s.cert, s.renew = c, renewAt(c)
	}
	if c != nil && own {
		s.renew = lastTenth(c)
	}
	if err == nil {
		s.files.over()
	}
	return s.cert
}

// selfSigned reports whether podexecd makes the certificate itself.
func (s *Serving) selfSigned() bool { return !s.cfg.Bootstrap && s.cfg.CertFile == "" }

// paths returns the files of the certificate.
func (s *Serving) paths() []string {
	if s.selfSigned() {
		return []string{ownCertPath(s.cfg.CertDir), ownKeyPath(s.cfg.CertDir)}
	}
	return []string{s.cfg.CertFile, s.cfg.KeyFile, s.issuer.currentPath()}
}

// read reads or makes the certificate. Neither a certificate nor an error: there is none yet.
func (s *Serving) read(now time.Time) (*tls.Certificate, error) {
	switch {
	case s.cfg.Bootstrap:
		return s.issuer.current()
	case s.selfSigned():
		return ownCertificate(s.cfg.CertDir, s.cfg.Node, now, s.cfg.Logger)
	}
	c, err := tls.LoadX509KeyPair(s.cfg.CertFile, s.cfg.KeyFile)
	if err != nil {
		return nil, err
	}
	return &c, nil
}
