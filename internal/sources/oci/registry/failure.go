package registry

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/podstream/podstream/internal/sources/fault"
)

// ErrNotFound is wrapped by the error of what the registry doesn't have.
var ErrNotFound = errors.New("not found")

// tokenHostError is that the registry wants the credentials to be sent to another host.
type tokenHostError struct{ host string }

func (e *tokenHostError) Error() string {
	return "the registry asks for the credentials at " + e.host + ", which isn't its own host: they are sent there only with tokenHost: " + e.host
}

// statusError is a response whose status is an error.
type statusError struct {
	text       fault.Error
	code       int
	retryAfter time.Duration
}

func (e *statusError) Error() string { return string(e.text) }

// RetryAfter returns how long the server asks to wait, for package pace. Zero: it doesn't.
func (e *statusError) RetryAfter() time.Duration { return e.retryAfter }

// Unwrap returns the text, and ErrNotFound for the status 404.
func (e *statusError) Unwrap() []error {
	if e.code == http.StatusNotFound {
		return []error{e.text, ErrNotFound}
	}
	return []error{e.text}
}

// codes are the codes of errors that a registry may add to a status.
var codes = []transport.ErrorCode{
	transport.BlobUnknownErrorCode, transport.ManifestUnknownErrorCode, transport.NameInvalidErrorCode, transport.NameUnknownErrorCode,
	transport.TagInvalidErrorCode, transport.UnauthorizedErrorCode, transport.DeniedErrorCode, transport.UnsupportedErrorCode,
	transport.TooManyRequestsErrorCode, transport.UnavailableErrorCode,
}

// explain words an error of a request, with the host if that isn't a configured one.
func (r *Reading) explain(err error) error {
	g := r.client.guard
	t := g.now()
	g.mu.Lock()
	at, retryAfter := t.at, t.retryAfter
	g.mu.Unlock()
	var (
		host   *tokenHostError
		status *transport.Error
	)
	switch {
	case errors.As(err, &host):
		return fault.Error(host.Error())
	case errors.As(err, &status):
		return r.located(status.Request, explainStatus(status, retryAfter))
	}
	request := fault.Request{Timeout: r.client.cfg.Timeout, Secrets: r.secrets}
	var asked *http.Request
	if at != nil {
		asked = &http.Request{URL: at}
		request.Host, request.Foreign = at.Hostname(), !g.isOwn(addressOf(at))
	}
	return r.located(asked, request.Explain(r.ctx, err))
}

// located adds the host to an error, unless it is a configured one.
func (r *Reading) located(asked *http.Request, err error) error {
	if asked == nil || r.client.guard.isOwn(addressOf(asked.URL)) {
		return err
	}
	return &fault.RedirectError{Host: r.secrets.Host(asked.URL.Host), Err: err}
}

func explainStatus(e *transport.Error, retryAfter time.Duration) error {
	text := fault.Newf("status %d %s", e.StatusCode, http.StatusText(e.StatusCode))
	for _, d := range e.Errors {
		if slices.Contains(codes, d.Code) {
			text += fault.Error(" (" + d.Code + ")")
			break
		}
	}
	switch e.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += ": the registry doesn't let these credentials read the repository"
	}
	return &statusError{text: text, code: e.StatusCode, retryAfter: retryAfter}
}
