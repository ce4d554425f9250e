package oci

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/oci/pin"
	"github.com/podstream/podstream/internal/sources/oci/registry"
	"github.com/podstream/podstream/internal/sources/pace"
	"github.com/podstream/podstream/internal/sources/trust"
)

const (
	// DefaultInterval is the default of Config.Interval.
	DefaultInterval = time.Minute
	// defaultTimeout is the default of Config.Timeout. An artifact has 10 MiB at most.
	defaultTimeout = time.Minute
)

// Config configures a Source.
type Config struct {
	// Name is the source's name: "oci" or "oci:NAME". Empty: "oci".
	Name string
	// Reference is the tag or the digest of the artifact, as ParseReference takes it.
	Reference string
	// PublicKeyFile has keys in PEM, one of which has to have signed the artifact. Empty: signatures aren't looked at.
	PublicKeyFile string
	// AnyRepository accepts signatures for another repository, or for none: the key signs nothing else than artifacts for
	// this node.
	AnyRepository bool
	// Monotonic refuses artifacts that were created earlier than one that was accepted. It needs PublicKeyFile, and
	// accepts nothing without Dir.
	Monotonic bool
	// CredentialsFile is docker's config.json. Empty: there are no credentials.
	CredentialsFile string
	// TokenHost is another host than the registry's to which the credentials may be sent. Empty: none.
	TokenHost string
	// CAFile has the CAs of the registry's certificate, in PEM. Empty: the system's. All files are read in each reading.
	CAFile string
	// Insecure allows plain HTTP. On loopback it is always allowed.
	Insecure bool
	// Interval is the time between readings. Zero: DefaultInterval.
	Interval time.Duration
	// Timeout is how long a reading may take. Zero: 1 min.
	Timeout time.Duration
	// Dir is where the accepted artifact is stored. It is the source's own. Empty: nowhere.
	Dir string
	// Node is the name of the node that the pods are for.
	Node string
	// Strict refuses manifests with unknown fields.
	Strict bool
	// Clock times the readings. Nil: the system's clock.
	Clock clock.Clock
	// Logger gets each change of the manifests' findings and of the source's state. Nil: slog.Default().
	Logger *slog.Logger

	// proxy replaces http.ProxyFromEnvironment in tests.
	proxy func(*http.Request) (*url.URL, error)
}

// Source reads one artifact. Make it with New.
type Source struct {
	cfg Config
	ref name.Reference
	// wake has a value when an older artifact was accepted: the registry is asked again.
	wake chan struct{}

	mu sync.Mutex
	// older is the artifact that was refused last because of its age, and accepted the digest of one that isn't refused
	// any more. Empty: there is none.
	older    older
	accepted string
}

// New returns a Source. It sends no request and reads no file. Its error is about the configuration.
func New(cfg Config) (*Source, error) {
	if cfg.Name == "" {
		cfg.Name = "oci"
	}
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	ref, err := ParseReference(cfg.Reference, cfg.Insecure)
	if err != nil {
		return nil, fmt.Errorf("source %s: reference %q: %w", cfg.Name, cfg.Reference, err)
	}
	if cfg.Monotonic && cfg.PublicKeyFile == "" {
		return nil, fmt.Errorf("source %s: to refuse older artifacts takes a public key", cfg.Name)
	}
	cfg.Logger = cfg.Logger.With("source", cfg.Name, "reference", Location(ref))
	return &Source{cfg: cfg, ref: ref, wake: make(chan struct{}, 1)}, nil
}

// Run reads the artifact until ctx ends, and then returns nil. It calls out, always from the same goroutine, with the full
// set of the stored artifact, if that can be used, and after each reading: an unchanged manifest is the same Origin, as
// pointer. After a failure the set has an Err, which names the artifact. While out runs nothing is requested.
func (s *Source) Run(ctx context.Context, out func(manifest.Set)) error {
	p := s.newPoller()
	if set, ok := p.restore(); ok {
		out(set)
	}
	pacing := pace.New(s.cfg.Interval, rand.Float64)
	for {
		start := s.cfg.Clock.Now()
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // A cancelled request says nothing about the source.
		}
		now := s.cfg.Clock.Now()
		set := manifest.Set{Source: s.cfg.Name, ReadTime: now, Err: err}
		if err == nil {
			set.Origins, set.Digest = p.content.origins, p.current.digest
		}
		out(set)
		timer := s.cfg.Clock.NewTimer(pacing.Next(now.Sub(start), err))
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-s.wake:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The error is in the set.
		}
	}
}

// newPoller returns the state of one Run.
func (s *Source) newPoller() *poller {
	p := &poller{
		source: s, cfg: &s.cfg, ref: s.ref, log: s.cfg.Logger,
		trust: &trust.Trust{CAFile: s.cfg.CAFile, Log: s.cfg.Logger},
		client: registry.New(registry.Config{
			Reference: s.ref, Insecure: s.cfg.Insecure, TokenHost: s.cfg.TokenHost, Timeout: s.cfg.Timeout, Clock: s.cfg.Clock, Proxy: s.cfg.proxy,
		}),
		content: &content{base: scheme + s.ref.Context().Name(), node: s.cfg.Node, strict: s.cfg.Strict},
	}
	if s.cfg.Dir != "" {
		p.store = pin.New(s.cfg.Dir)
	}
	return p
}
