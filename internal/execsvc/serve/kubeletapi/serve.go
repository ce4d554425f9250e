package kubeletapi

import (
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
)

// maxPath is longer than the path of any file, pod or container.
const maxPath = 4096

// ServeHTTP authorizes and serves a request, or refuses it.
func (p *port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := p.server
	if !s.begin() {
		answer(w, unavailable("podexecd is ending"))
		return
	}
	defer s.requests.Done()
	defer s.metrics.begin(r, p.kind)()
	defer p.recovered(w, r)

	if !clean(r) {
		p.refuse(w, r, "path", refused{verb: r.Method, err: errPath}, badRequest("Bad Request: %v", errPath))
		return
	}
	p.boundBody(w, r)
	// The handler gets the path that was authorized.
	r.URL.RawPath = ""
	var user *auth.User
	if p.auth != nil {
		known, no := p.auth.Check(r)
		if no != nil {
			p.refuse(w, r, no.Reason, refused{user: no.User, verb: no.Verb, err: no.Err}, &failure{no.Status, no.Message})
			return
		}
		user, r = known, r.WithContext(auth.WithUser(r.Context(), known))
	}
	if c := connOf(r.Context()); c != nil {
		if err := c.welcome(user); err != nil {
			p.refuse(w, r, "connections", refused{verb: r.Method, err: err}, unavailable("Too many connections"))
			return
		}
	}
	route, err := p.routes.find(r.Method, r.URL.Path)
	if err != nil {
		if route != nil {
			w.Header().Set("Allow", strings.Join(route.methods, ", "))
		}
		answer(w, err)
		return
	}
	if !route.long {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.guard.limits.AnswerTimeout))
	}
	route.handler.ServeHTTP(w, r)
}

// refuse answers with an error, and closes the connection unless a request on it has been allowed before.
func (p *port) refuse(w http.ResponseWriter, r *http.Request, reason string, of refused, err error) {
	of.peer, of.path = r.RemoteAddr, r.URL.Path
	p.server.refusals.add(reason, of)
	if c := connOf(r.Context()); c == nil || c.stranger() {
		w.Header().Set("Connection", "close")
	}
	if passes(err) {
		w.Header().Set("Retry-After", "1")
	}
	answer(w, err)
}

// boundBody limits the time and size of a request's body, also if no handler reads it: net/http then reads it before
// it answers.
func (p *port) boundBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.guard.limits.BodyTimeout))
	r.Body = http.MaxBytesReader(w, r.Body, p.guard.limits.MaxBodyBytes)
}

// recovered limits the effect of a handler's panic to its request.
func (p *port) recovered(w http.ResponseWriter, r *http.Request) {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		p.server.log.Error("a handler of the node's API panicked", "path", printable(r.URL.Path), "panic", cause, "stack", string(debug.Stack()))
		answer(w, internal("Internal Server Error"))
	}
}

// clean reports whether every reader interprets the path in the same way: absolute, without empty or dotted
// elements, encoded slashes and unprintable characters.
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
