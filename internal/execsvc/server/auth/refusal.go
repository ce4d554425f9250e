package auth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// errNoCredentials is what a request without any is refused with.
var errNoCredentials = errors.New("the request has no credentials that count here")

// errBusy is what a request is refused with while too many others are being asked about.
var errBusy = errors.New("too many requests wait for the API server's word")

// Refusal is why a request isn't let in.
type Refusal struct {
	// Status and Message are the answer. The message has nothing that the caller doesn't know.
	Status  int
	Message string
	// Reason is one of few words: unauthorized, forbidden, method, undecided or busy.
	Reason string
	// User is empty if that isn't known; Verb is the one that was asked for.
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
