package stream

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
)

// failure is an error with its HTTP status. Where the kubelet has a text for it, the text is the kubelet's: users
// see it through the API server and kubectl, and scripts match it.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

// The functions below make the failures of this package, one for each status.

// badRequest: the request is wrong, or the state of its container doesn't allow it.
func badRequest(format string, args ...any) error { return fail(http.StatusBadRequest, format, args) }

// notFound: the pod, container or log that the request names doesn't exist.
func notFound(format string, args ...any) error { return fail(http.StatusNotFound, format, args) }

// unprocessable: the options of a request for a log contradict each other, or are out of range.
func unprocessable(format string, args ...any) error {
	return fail(http.StatusUnprocessableEntity, format, args)
}

// tooManyRequests: a limit is reached, of the caller or of the node. The caller may try again later.
func tooManyRequests(format string, args ...any) error {
	return fail(http.StatusTooManyRequests, format, args)
}

// internal: the container runtime failed.
func internal(format string, args ...any) error {
	return fail(http.StatusInternalServerError, format, args)
}

// badGateway: the container runtime's streaming server doesn't open a stream.
func badGateway(format string, args ...any) error { return fail(http.StatusBadGateway, format, args) }

// unavailable: podexecd is ending.
func unavailable(format string, args ...any) error {
	return fail(http.StatusServiceUnavailable, format, args)
}

// answered: the container runtime's streaming server answered with an error, which the caller receives.
func answered(status int, text []byte) error { return &failure{status, string(text)} }

func fail(status int, format string, args []any) error {
	return &failure{status, fmt.Sprintf(format, args...)}
}

// failedCommand is the status of a command that failed after it printed something. Its output is the response.
const failedCommand = http.StatusInternalServerError

// methodNotAllowed answers a request whose path allows only one other method.
func methodNotAllowed(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	w.WriteHeader(http.StatusMethodNotAllowed)
}

// answer sends an error as plain text, without a newline that would appear in logs.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, err error) {
	code := statusOf(err)
	if code >= http.StatusInternalServerError && r.Context().Err() == nil {
		h.log.WarnContext(r.Context(), "a request for a pod fails", "path", r.URL.Path, "error", err)
	}
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "10")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, err.Error())
}

// statusOf returns the HTTP status of an error: its own, or one for the runtime's error.
func statusOf(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status
	}
	if errors.Is(err, runtime.ErrNoLog) || errors.Is(err, runtime.ErrNoSandbox) {
		return http.StatusNotFound
	}
	if errors.Is(err, runtime.ErrTooManyFollows) {
		return http.StatusTooManyRequests
	}
	switch status.Code(err) {
	case codes.NotFound:
		return http.StatusNotFound
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	default:
		return http.StatusInternalServerError
	}
}
