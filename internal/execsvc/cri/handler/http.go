package handler

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// newTransport returns a transport for requests to containers. They have no credentials of the node, so certificates
// aren't verified; they bypass the node's proxy; and each has a connection of its own, because an open one would hide
// that a container no longer accepts connections.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:      true,
		DisableCompression:     true, // no Accept-Encoding unless the author sets it
		ForceAttemptHTTP2:      true, // an own TLSClientConfig would disable it
		MaxResponseHeaderBytes: maxHeaders,
	}
}

func (r *Runner) probeHTTP(ctx context.Context, t Target, action *v1.HTTPGetAction, timeout time.Duration) (Outcome, string, error) {
	request, err := r.request(ctx, t, action, "probe")
	if err != nil {
		return Failure, "", err
	}
	response, err := r.client(timeout).Do(request)
	if err != nil {
		return Failure, err.Error(), nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	switch code := response.StatusCode; {
	case err != nil:
		return Failure, "", fmt.Errorf("read the body: %w", err)
	case code >= 300 && code < 400:
		return Warning, "Probe terminated redirects, Response body: " + string(body), nil
	case code >= 200 && code < 300:
		return Success, string(body), nil
	default:
		// Without the body: readers of events may not be allowed to see it (kubernetes/kubernetes#99425).
		return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code), nil
	}
}

// client returns a client whose requests take at most the timeout, including the body. Zero: until their context ends.
func (r *Runner) client(timeout time.Duration) *http.Client {
	return &http.Client{Transport: r.transport, Timeout: timeout, CheckRedirect: stayOnHost}
}

// stayOnHost follows up to ten redirects to the same host. One to another host is the answer: containers mustn't direct
// the node to other hosts.
func stayOnHost(next *http.Request, via []*http.Request) error {
	if next.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// request returns the GET request of the action. Purpose goes into the User-Agent: "probe" or "lifecycle".
func (r *Runner) request(ctx context.Context, t Target, action *v1.HTTPGetAction, purpose string) (*http.Request, error) {
	addr, err := address(t, action.Host, action.Port)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, actionURL(action, addr).String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, h := range action.HTTPHeaders {
		request.Header.Add(h.Name, h.Value)
	}
	if _, ok := request.Header["User-Agent"]; !ok {
		request.Header.Set("User-Agent", "kube-"+purpose+"/"+r.cfg.Version)
	}
	switch accept, ok := request.Header["Accept"]; {
	case !ok:
		request.Header.Set("Accept", "*/*")
	case accept[0] == "": // the author sets it to empty
		request.Header.Del("Accept")
	}
	request.Host = request.Header.Get("Host")
	return request, nil
}

// actionURL parses the path, which may have a query. An invalid one is sent as it is.
func actionURL(action *v1.HTTPGetAction, addr string) *url.URL {
	u, err := url.Parse(action.Path)
	if err != nil {
		u = &url.URL{Path: action.Path}
	}
	u.Scheme, u.Host = "http", addr
	if action.Scheme != "" {
		u.Scheme = strings.ToLower(string(action.Scheme))
	}
	return u
}
