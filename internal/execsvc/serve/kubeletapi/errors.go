package kubeletapi

import (
	"errors"
	"fmt"
	"net/http"
)

// ErrNoRuntime is returned until the container runtime has answered for the first time.
var ErrNoRuntime = errors.New("the container runtime doesn't answer yet")

// Refusals of paths and connections.
var (
	errPath            = errors.New("the path can be read in more than one way")
	errTooMany         = errors.New("too many connections")
	errTooManyOfCaller = errors.New("too many connections of this caller")
	errDisplaced       = errors.New("closed for a newer connection before any request on it was allowed")
	errStillAStranger  = errors.New("no request on it was allowed in time")
	errClosedByTheNode = errors.New("the connection is closed")
)

// failure is an error with its HTTP status. Statuses and texts are the kubelet's, where the kubelet has the endpoint.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

// answer sends an error with its status.
func answer(w http.ResponseWriter, err error) { http.Error(w, err.Error(), statusOf(err)) }

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status
	}
	return http.StatusInternalServerError
}

// passes reports whether the same request may succeed in a moment.
func passes(err error) bool {
	status := statusOf(err)
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// Refusals of requests for which there is no handler.
var (
	errNoPage = notFound("404 page not found")
	errMethod = methodNotAllowed("Method Not Allowed")
)

// The functions below make the failures of this package, one for each status.

// badRequest: the path, a parameter or the body can't be read.
func badRequest(format string, args ...any) error { return fail(http.StatusBadRequest, format, args) }

// notFound: the path has no handler.
func notFound(format string, args ...any) error { return fail(http.StatusNotFound, format, args) }

// methodNotAllowed: the path doesn't take the method, or its endpoint is disabled.
func methodNotAllowed(format string, args ...any) error {
	return fail(http.StatusMethodNotAllowed, format, args)
}

// notAcceptable: the parameters can be read, but are wrong together.
func notAcceptable(format string, args ...any) error {
	return fail(http.StatusNotAcceptable, format, args)
}

// tooManyRequests: too many requests of this kind are under way.
func tooManyRequests(format string, args ...any) error {
	return fail(http.StatusTooManyRequests, format, args)
}

// internal: the node failed, or a check of it.
func internal(format string, args ...any) error {
	return fail(http.StatusInternalServerError, format, args)
}

// unavailable: too many connections are open, or podexecd is starting or ending.
func unavailable(format string, args ...any) error {
	return fail(http.StatusServiceUnavailable, format, args)
}

func fail(status int, format string, args []any) error {
	return &failure{status, fmt.Sprintf(format, args...)}
}
