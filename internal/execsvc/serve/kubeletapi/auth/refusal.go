package auth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// errNoCredentials is the error of a request without usable credentials.
var errNoCredentials = errors.New("the request has no usable credentials")

// errBusy is the error of a request while too many reviews are under way.
var errBusy = errors.New("too many requests wait for reviews of the API server")

// Refusal is the reason why a request is refused.
type Refusal struct {
	// Status and Message are the response. The message contains nothing that is secret from the caller.
	Status  int
	Message string
	// Reason is one of: unauthorized, forbidden, method, undecided, busy.
	Reason string
	// User is empty if it is unknown; Verb is the request's verb.
	User, Verb string
	// Err is for the node's own log.
	Err error
}

func unauthorized(err error) *Refusal {
	if errors.Is(err, errBusy) {
		return busy(nil, "")
	}
	return &Refusal{Status: http.StatusUnauthorized, Message: "Unauthorized", Reason: "unauthorized", Err: err}
}

func forbidden(user *User, verb string, anyOf []string, why string) *Refusal {
	err := errors.New("not allowed")
	if why != "" {
		err = fmt.Errorf("not allowed: %s", why)
	}
	return &Refusal{
		Status: http.StatusForbidden, Reason: "forbidden", User: user.Name, Verb: verb, Err: err,
		Message: fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=[%s])", user.Name, verb, strings.Join(anyOf, " ")),
	}
}

func unknownMethod(user *User, method string) *Refusal {
	return &Refusal{
		Status: http.StatusForbidden, Reason: "method", User: user.Name, Verb: method, Err: errors.New("the method is unknown"),
		Message: "Authorization error: could not determine attributes for request",
	}
}

func undecided(err error, user *User, verb, subresource string) *Refusal {
	if errors.Is(err, errBusy) {
		return busy(user, verb)
	}
	return &Refusal{
		Status: http.StatusInternalServerError, Reason: "undecided", User: user.Name, Verb: verb, Err: err,
		Message: fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", user.Name, verb, subresource),
	}
}

func busy(user *User, verb string) *Refusal {
	r := &Refusal{Status: http.StatusTooManyRequests, Message: "Too many requests", Reason: "busy", Verb: verb, Err: errBusy}
	if user != nil {
		r.User = user.Name
	}
	return r
}
