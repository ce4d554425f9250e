package http

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/pace"
	"github.com/podstream/podstream/internal/sources/trust"
)

// secondLook is the wait for the response that confirms the previous one.
const secondLook = time.Second

// Config configures a Source.
type Config struct {
	// Name is the source's name: "http" or "http:NAME". Empty: "http".
	Name string
	// URL is the URL of the pods, http or https. It may have user and password; Location has it without.
	URL string
	// Headers are sent with each request to the URL's host. They may replace those of the Source, except
	// Accept-Encoding and the ones that make a request conditional or partial. Nil: none.
	Headers http.Header
	// CAFile has the CAs of the server's certificate. Empty: the system's.
	CAFile string
	// CertFile and KeyFile are the client certificate, with its chain, and its key. Empty: none. These three are PEM,
	// and are read again before each request.
	CertFile, KeyFile string
	// Node is the name of the node that the pods are for.
	Node string
	// Strict refuses manifests with unknown fields, and a whole body for one bad item.
	Strict bool
	// Known returns the origins of the pods and objects that are known of this source, from before the restart or
	// from a previous Source. They are held while it isn't certain what the first body has. It is called once, at the
	// start of Run. Nil: there are none.
	Known func() []string
	// CheckFrequency is the interval of requests. Zero: 20 s.
	CheckFrequency time.Duration
	// Timeout is how long a request may take, to the last byte of the response. Zero: 10 s.
	Timeout time.Duration
	// Clock times the requests and the Timeout. Nil: the system's clock.
	Clock clock.Clock
	// Logger gets each change of the items' findings and of the source's state. Nil: slog.Default().
	Logger *slog.Logger
}

// Source reads one URL. Make it with New.
type Source struct {
	cfg      Config
	url      *url.URL
	header   http.Header
	location string
}

// New returns a Source. It makes no request yet. It returns an error if the URL or a header can't be sent; its errors
// quote neither. Run reads the files: they may be created later.
func New(cfg Config) (*Source, error) {
	if cfg.Name == "" {
		cfg.Name = "http"
	}
	if cfg.CheckFrequency <= 0 {
		cfg.CheckFrequency = 20 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	u, err := parseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("http source %s: %w", cfg.Name, err)
	}
	if (cfg.CertFile == "") != (cfg.KeyFile == "") {
		return nil, fmt.Errorf("http source %s: a client certificate needs both its file and that of its key", cfg.Name)
	}
	header, err := checkHeaders(cfg.Headers)
	if err != nil {
		return nil, fmt.Errorf("http source %s: %w", cfg.Name, err)
	}
	s := &Source{cfg: cfg, url: u, header: header, location: locationOf(u)}
	s.cfg.Logger = cfg.Logger.With("source", cfg.Name, "url", s.location)
	if u.User != nil {
		if header.Get("Authorization") == "" {
			password, _ := u.User.Password()
			header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		}
		u.User = nil
	}
	return s, nil
}

// checkHeaders copies the configured headers, with names in net/http's canonical form.
func checkHeaders(configured http.Header) (http.Header, error) {
	header := http.Header{}
	for name, values := range configured {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, errors.New("a header's name isn't valid")
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("the value of header %s isn't valid", name)
			}
			header.Add(name, value)
		}
	}
	return header, nil
}

// Run requests the URL until ctx ends, and then returns nil. It calls out, always from the same goroutine, with the
// full set after each response: an unchanged item is the same Origin, as pointer, and ReadTime always moves. After a
// failure the set has an Err, which names the URL and has no secret. While out runs no request is made.
func (s *Source) Run(ctx context.Context, out func(manifest.Set)) error {
	p := s.newPoller()
	pacing := pace.New(s.cfg.CheckFrequency, rand.Float64)
	for {
		start := s.cfg.Clock.Now()
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // A cancelled request says nothing about the source.
		}
		now := s.cfg.Clock.Now()
		set := manifest.Set{Source: s.cfg.Name, ReadTime: now, Err: err}
		if err == nil {
			set.Origins = p.content.origins()
		}
		out(set)
		wait := pacing.Next(now.Sub(start), err)
		if p.soon {
			wait = secondLook
		}
		timer := s.cfg.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// newPoller returns the state of one Run.
func (s *Source) newPoller() *poller {
	var hidden []string
	for _, values := range s.header {
		hidden = append(hidden, values...)
	}
	for _, values := range s.url.Query() {
		hidden = append(hidden, values...)
	}
	if u, err := url.Parse(s.cfg.URL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		hidden = append(hidden, u.User.Username(), password)
	}
	var known []string
	if s.cfg.Known != nil {
		known = s.cfg.Known()
	}
	return &poller{
		log: s.cfg.Logger,
		fetcher: &fetcher{
			url: s.url, header: s.header, location: s.location, timeout: s.cfg.Timeout,
			secrets: fault.NewSecrets(hidden...), clock: s.cfg.Clock,
			trust: &trust.Trust{CAFile: s.cfg.CAFile, CertFile: s.cfg.CertFile, KeyFile: s.cfg.KeyFile, Log: s.cfg.Logger},
		},
		content: newContent(manifest.Options{
			Origin: s.location, OriginKind: manifest.URLKind, Node: s.cfg.Node, Strict: s.cfg.Strict,
		}, known),
	}
}
