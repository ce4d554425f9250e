package fault

import "errors"

// RedirectError is an error at a host that a redirect led to. The server chooses the host, perhaps another one each time.
type RedirectError struct {
	// Host is fit for all callers.
	Host string
	Err  error
}

func (e *RedirectError) Error() string { return "redirected to " + e.Host + ": " + e.Err.Error() }

// Unwrap returns the error at the host.
func (e *RedirectError) Unwrap() error { return e.Err }

// Problem is the text by which an error is compared with the previous one: a redirect to another host each time isn't
// another problem.
func Problem(err error) string {
	var e *RedirectError
	if errors.As(err, &e) {
		return "elsewhere: " + e.Err.Error()
	}
	return err.Error()
}
