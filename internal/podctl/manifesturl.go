package podctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// urlTime is how long the manifests of one URL may take.
	urlTime = 30 * time.Second
	// maxRedirects is how many redirects of one URL are followed.
	maxRedirects = 5
)

// isURL reports whether a value of -f is a URL, as kubectl decides it.
func isURL(name string) bool {
	return strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://")
}

// urlName returns a URL for messages, which podconfigd and its log get too: without what may be a credential.
func urlName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the URL of -f"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// readURL gets the manifests of a URL with the calling user's network, proxy and certificates, or one byte more than limit if they
// are larger. podconfigd gets the manifests, and fetches nothing.
func (t *tool) readURL(ctx context.Context, address string, limit int) ([]byte, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	return fetchManifest(ctx, transport, t.userAgent(), address, limit)
}

// fetchManifest is readURL with the transport of the requests.
func fetchManifest(ctx context.Context, transport http.RoundTripper, userAgent, address string, limit int) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, urlTime, fmt.Errorf("it takes longer than %s", urlTime))
	defer cancel()
	content, err := get(ctx, transport, userAgent, address, limit)
	// The error of the standard library has the URL as it is given.
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", urlName(address), err)
	}
	return content, nil
}

func get(ctx context.Context, transport http.RoundTripper, userAgent, address string, limit int) ([]byte, error) {
	client := http.Client{Transport: transport, CheckRedirect: checkRedirect}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %d (%s); want 200 and manifests", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return readLimited(resp.Body, limit)
}

// checkRedirect refuses a redirect to another scheme: one from https to http would let others on the way write the pods. It removes
// the Referer, by which the next server would get a token that the URL has.
func checkRedirect(next *http.Request, before []*http.Request) error {
	next.Header.Del("Referer")
	switch {
	case next.URL.Scheme != before[0].URL.Scheme:
		return fmt.Errorf("the server redirects from %s to %s, which podctl doesn't follow: give the URL that it leads to",
			before[0].URL.Scheme, next.URL.Scheme)
	case len(before) > maxRedirects:
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	}
	return nil
}
