package apitest

import (
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	enc, ok := negotiate(r)
	if !ok {
		http.Error(w, "none of the media types in Accept is served", http.StatusNotAcceptable)
		return
	}
	req, ok := parse(r)
	if r.URL.Path == "/version" {
		req, ok = Request{Verb: "get", Resource: "version", User: userOf(r), Accept: r.Header.Get("Accept")}, true
	}
	if !ok {
		respond(w, enc, failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource"))
		return
	}
	req.Metadata = enc.metadata
	if reply := s.intercept(req); reply != nil {
		s.substitute(w, enc, req, reply)
		return
	}
	switch {
	case req.Resource == "version":
		s.note(req, http.StatusOK)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.release())
	case req.Verb == "watch":
		s.serveWatch(w, r, enc, req)
	case req.Verb == "list":
		s.conclude(w, enc, req, asRequested(req, s.list(req)))
	default:
		s.conclude(w, enc, req, s.get(req))
	}
}

// intercept returns the answer that replaces the usual one, if any.
func (s *Server) intercept(req Request) *Reply {
	s.mu.Lock()
	admitted, answer := s.admitted == nil || s.admitted[req.User], s.answer
	s.mu.Unlock()
	if !admitted {
		return Fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	}
	if answer == nil {
		return nil
	}
	return answer(req)
}

func (s *Server) substitute(w http.ResponseWriter, enc encoding, req Request, reply *Reply) {
	if reply.Status != nil {
		s.conclude(w, enc, req, reply.Status)
		return
	}
	s.note(req, http.StatusOK)
	w.Header().Set("Content-Type", reply.ContentType)
	_, _ = w.Write(reply.Body)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// conclude records the request and sends its answer.
func (s *Server) conclude(w http.ResponseWriter, enc encoding, req Request, answer runtime.Object) {
	code := http.StatusOK
	if status, ok := answer.(*metav1.Status); ok {
		code = int(status.Code)
	}
	s.note(req, code)
	respond(w, enc, answer)
}

func (s *Server) note(req Request, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.Code = code
	s.log = append(s.log, req)
	s.notify()
}

// respond sends an object, or an error. If that fails, its client is gone.
func respond(w http.ResponseWriter, enc encoding, answer runtime.Object) {
	code := http.StatusOK
	if status, ok := answer.(*metav1.Status); ok {
		code = int(status.Code)
		if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
		}
	}
	body, err := enc.object(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", enc.contentType(false))
	w.WriteHeader(code)
	_, _ = w.Write(body)
}
