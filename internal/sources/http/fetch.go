package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/pace"
	"github.com/podstream/podstream/internal/sources/trust"
)

const (
	// maxRedirects is how many redirects are followed.
	maxRedirects = 10
	// maxHeader bounds the headers of a response, in bytes.
	maxHeader = 256 << 10
)

// fetcher requests one URL. Each request has connections of its own: a kept connection could be dead, or lead to a
// server that isn't meant any more, and net/http logs unsolicited data on it to the process's log.
type fetcher struct {
	// url has no user and password: header has them.
	url      *url.URL
	header   http.Header
	location string
	timeout  time.Duration
	trust    *trust.Trust
	secrets  fault.Secrets
	clock    clock.Clock
}

// answer is a readable response.
type answer struct {
	// unchanged is set for a 304.
	unchanged bool
	body      body
	validator validator
}

// errBody is wrapped by errors of fetch about the body of a response with status 200.
var errBody = errors.New("read the body")

// fetch makes one request. Its errors name the URL, and contain no secret.
func (f *fetcher) fetch(ctx context.Context, last validator) (answer, error) {
	a, err := f.ask(ctx, last)
	if err != nil {
		return answer{}, fmt.Errorf("GET %s: %w", f.location, err)
	}
	return a, nil
}

func (f *fetcher) ask(ctx context.Context, last validator) (answer, error) {
	config, err := f.trust.Load()
	if err != nil {
		return answer{}, err
	}
	ctx, end := pace.Limit(ctx, f.clock, f.timeout)
	defer end()
	req := (&http.Request{Method: http.MethodGet, URL: f.url, Host: f.header.Get("Host")}).WithContext(asOwn(ctx, true))
	req.Header = f.headers(true, last)
	at := f.url
	client := &http.Client{
		Transport: f.transport(ctx, config),
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if err := f.redirect(req, via, last); err != nil {
				return err
			}
			at = req.URL
			return nil
		},
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, f.located(at, f.explain(ctx, at, err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && last != "":
		return answer{unchanged: true}, nil
	case resp.StatusCode != http.StatusOK:
		return answer{}, f.located(at, f.refusal(resp))
	}
	body, err := readBody(resp)
	if err != nil {
		return answer{}, f.located(at, fmt.Errorf("%w: %w", errBody, f.explain(ctx, at, err)))
	}
	return answer{body: body, validator: validatorOf(resp.Header)}, nil
}

// located adds to an error the host where it happened, if that isn't the configured one.
func (f *fetcher) located(at *url.URL, err error) error {
	var redirected *fault.RedirectError
	if at.Host == f.url.Host || errors.As(err, &redirected) {
		return err
	}
	return &fault.RedirectError{Host: f.secrets.Host(at.Host), Err: err}
}

// refusal returns the error of a response that isn't 200.
func (f *fetcher) refusal(resp *http.Response) error {
	status := &statusError{code: resp.StatusCode}
	if status.code == http.StatusTooManyRequests || status.code == http.StatusServiceUnavailable {
		status.retryAfter = pace.RetryAfter(resp.Header, f.clock.Now())
	}
	return status
}

// headers returns the headers of a request, with the configured ones if it goes to the configured host.
func (f *fetcher) headers(own bool, last validator) http.Header {
	h := http.Header{"Accept": {"application/json, application/yaml;q=0.9, */*;q=0.8"}, "User-Agent": {"podconfigd"}}
	if own {
		for name, values := range f.header {
			h[name] = values
		}
	}
	// net/http would decompress what it requested without a limit.
	h.Set("Accept-Encoding", "gzip")
	last.setOn(h)
	return h
}

// redirect decides on a redirect, and sets the headers of the next request.
func (f *fetcher) redirect(req *http.Request, via []*http.Request, last validator) error {
	switch {
	case len(via) > maxRedirects:
		return fault.Newf("more than %d redirects", maxRedirects)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return fault.Error("redirected to a URL that is neither http nor https")
	case via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme == "http":
		return &fault.RedirectError{Host: f.secrets.Host(req.URL.Host), Err: fault.Error("this leads from https to http, which isn't followed")}
	}
	own := sameHost(f.url, req.URL)
	for _, r := range via {
		// Another host may redirect back to any path of the configured host, and must not direct the credentials
		// there.
		own = own && sameHost(f.url, r.URL)
	}
	// This drops the Referer as well, which would have the query.
	req.Header = f.headers(own, last)
	*req = *req.WithContext(asOwn(req.Context(), own))
	return nil
}

// transport returns a transport for one request: every connection is closed when ctx ends.
func (f *fetcher) transport(ctx context.Context, config *tls.Config) http.RoundTripper {
	own := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        config.Clone(),
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		// The context that the transport passes outlives the request's.
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = conn.Close() })
			}
			return conn, err
		},
	}
	other := own.Clone()
	other.TLSClientConfig.Certificates = nil
	return &byHost{own: own, other: other}
}

// ownKey is the context key for whether a request may have the credentials.
type ownKey struct{}

func asOwn(ctx context.Context, own bool) context.Context {
	return context.WithValue(ctx, ownKey{}, own)
}

// byHost uses the client certificate only for requests that may have the credentials.
type byHost struct{ own, other *http.Transport }

// RoundTrip is part of http.RoundTripper.
func (t *byHost) RoundTrip(req *http.Request) (*http.Response, error) {
	if own, _ := req.Context().Value(ownKey{}).(bool); own {
		return t.own.RoundTrip(req)
	}
	return t.other.RoundTrip(req)
}
