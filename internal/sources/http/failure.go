package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/sources/fault"
)

const (
	errTooLarge fault.Error = "the body is larger than 10 MiB"
	errEmpty    fault.Error = "the body is empty: to have no pods, send a v1 PodList with \"items\": []"
	errHTML     fault.Error = "this is an HTML page: is it a login or error page, or the wrong URL?"
	errEndless  fault.Error = "the answer doesn't tell how long it is, and YAML doesn't show whether it is whole: it is read when two answers " +
		"in a row say the same, or with a Content-Length or chunked encoding"
	errEncoding fault.Error = "the body has an encoding other than gzip"
)

// statusError is a response whose status is an error.
type statusError struct {
	code int
	// retryAfter is how long the server asks to wait. Zero: it doesn't.
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.code, http.StatusText(e.code))
	switch {
	case e.code == http.StatusNotModified:
		return text + " though the request wasn't conditional"
	case e.code > http.StatusOK && e.code < http.StatusMultipleChoices:
		return text + ": only 200 OK is an answer with pods"
	}
	return strings.TrimSpace(text)
}

// RetryAfter returns how long the server asks to wait, for package pace. Zero: it doesn't.
func (e *statusError) RetryAfter() time.Duration { return e.retryAfter }

// explain describes the failure of a request. ctx is the request's, and at is the last URL.
func (f *fetcher) explain(ctx context.Context, at *url.URL, err error) error {
	var foreign *fault.RedirectError
	if errors.As(err, &foreign) {
		return foreign
	}
	r := fault.Request{Timeout: f.timeout, Secrets: f.secrets, Host: at.Hostname(), Foreign: at.Host != f.url.Host}
	return r.Explain(ctx, err)
}
