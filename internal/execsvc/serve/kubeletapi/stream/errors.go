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

func fail(status int, format string, args ...any) error {
	return &failure{status, fmt.Sprintf(format, args...)}
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
