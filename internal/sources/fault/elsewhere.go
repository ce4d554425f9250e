package fault

import "errors"

// Elsewhere is an error at a host that a redirect led to. The server chooses the host, perhaps another one each time.
type Elsewhere struct {
	// Host is fit for all callers.
	Host string
	Err  error
}

func (e *Elsewhere) Error() string { return "redirected to " + e.Host + ": " + e.Err.Error() }

// Unwrap returns the error at the host.
func (e *Elsewhere) Unwrap() error { return e.Err }

// Problem is the text by which an error is compared with the previous one: a redirect to another host each time isn't
// another problem.
func Problem(err error) string {
	var e *Elsewhere
	if errors.As(err, &e) {
		return "elsewhere: " + e.Err.Error()
	}
	return err.Error()
}
