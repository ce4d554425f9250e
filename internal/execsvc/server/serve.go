package server

import (
	"errors"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"
)

// maxPath is longer than the path of any file, pod or container.
const maxPath = 4096

// errPath is why a path isn't looked at.
var errPath = errors.New("the path can be read in more than one way")

// ServeHTTP lets a request pass, or answers why not.
func (p *port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := p.server
	if !s.begin() {
		http.Error(w, "podexecd is ending", http.StatusServiceUnavailable)
		return
	}
	defer s.requests.Done()
	defer s.metrics.begin(r, p.kind)()
	defer p.recovered(w, r)

	if !clean(r) {
		p.refuse(w, r, "path", refused{verb: r.Method, err: errPath}, http.StatusBadRequest, "Bad Request: "+errPath.Error())
		return
	}
	p.boundBody(w, r)
	// From here on there is one path, the one that auth decides on.
	r.URL.RawPath = ""
	if p.auth != nil {
		if _, no := p.auth.Check(r); no != nil {
			p.refuse(w, r, no.Reason, refused{user: no.User, verb: no.Verb, err: no.Err}, no.Status, no.Message)
			return
		}
	}
	if c := connOf(r.Context()); c != nil {
		if err := c.welcome(); err != nil {
			p.refuse(w, r, "connections", refused{verb: r.Method, err: err}, http.StatusServiceUnavailable, "Too many connections")
			return
		}
	}
	route, status := p.routes.find(r.Method, r.URL.Path)
	switch status {
	case http.StatusOK:
		if !route.long {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.guard.limits.AnswerTimeout))
		}
		route.handler.ServeHTTP(w, r)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.Join(route.methods, ", "))
		http.Error(w, "Method Not Allowed", status)
	default:
		http.Error(w, "404 page not found", status)
	}
}

// refuse answers with text, and ends the connection unless a request on it has been let in before.
func (p *port) refuse(w http.ResponseWriter, r *http.Request, reason string, of refused, status int, message string) {
	of.peer, of.path = r.RemoteAddr, r.URL.Path
	p.server.refusals.add(reason, of)
	if c := connOf(r.Context()); c == nil || c.stranger() {
		w.Header().Set("Connection", "close")
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, message, status)
}

// boundBody gives a request's body its time and its size, also if nobody reads it: net/http does then, before it answers.
func (p *port) boundBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.guard.limits.BodyTimeout))
	r.Body = http.MaxBytesReader(w, r.Body, p.guard.limits.MaxBodyBytes)
}

// recovered makes a handler's panic an error of its request alone.
func (p *port) recovered(w http.ResponseWriter, r *http.Request) {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		p.server.log.Error("a handler of the node's API panicked", "path", printable(r.URL.Path), "panic", cause, "stack", string(debug.Stack()))
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	}
}

// clean tells whether the path is the same to everybody who reads it: absolute, with no empty or dotted elements, no slash that isn't one,
// nothing unprintable.
func clean(r *http.Request) bool {
	at := r.URL.Path
	if at == "" || at[0] != '/' || len(at) > maxPath || strings.Contains(strings.ToLower(r.URL.RawPath), "%2f") {
		return false
	}
	for _, c := range []byte(at) {
		if c < ' ' || c == 0x7f || c == '\\' {
			return false
		}
	}
	return at == "/" || path.Clean(at) == strings.TrimSuffix(at, "/")
}
