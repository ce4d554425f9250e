package errorbody

import (
	"io"
	"net/http"
)

// most is how much of a body is read, in bytes. A Status of Kubernetes has a few kilobytes.
const most = 64 << 10

// Bound returns the result of a RoundTripper: the body of an error ends after 64 KiB.
func Bound(response *http.Response, err error) (*http.Response, error) {
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		response.Body = body{io.LimitReader(response.Body, most), response.Body}
	}
	return response, err
}

// Around returns the RoundTripper with Bound.
func Around(inner http.RoundTripper) http.RoundTripper { return around{inner} }

type around struct{ http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (a around) RoundTrip(request *http.Request) (*http.Response, error) {
	return Bound(a.RoundTripper.RoundTrip(request))
}

// WrappedRoundTripper is how client-go finds the connections.
func (a around) WrappedRoundTripper() http.RoundTripper { return a.RoundTripper }

// body is a part of a body.
type body struct {
	io.Reader
	io.Closer
}
