package fakeapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Request is a request of a client.
type Request struct {
	// Verb is get, create, patch or delete.
	Verb            string
	Namespace, Name string
	Body            []byte
	At              time.Time
	// Code is the status of the response; zero if there was none.
	Code int
}

// Fault is the failure of a request. The zero value is no failure.
type Fault struct {
	// Lost: there is no response; with Hangs the client waits for it until it gives up. Done: the request is applied
	// nevertheless.
	Lost, Hangs, Done bool
	// Code is the status of the response, with this message and a Retry-After of so many seconds. Zero: no status of
	// its own.
	Code, RetryAfter int
	Message          string
	// Foreign: a proxy before the server sends the response.
	Foreign bool
}

// Server is the API server. Its functions must be set before it is used; they are called without its lock.
type Server struct {
	// Fault returns the failure of each request, and may block. Nil: none fails.
	Fault func(Request) Fault
	// Changed is called with each change, in order of versions; pod is the last version if it was removed. Nil: no
	// call is made.
	Changed func(pod *v1.Pod, removed bool)
	// Omit removes fields from a status that the server doesn't have. Nil: it has all.
	Omit func(*v1.PodStatus)
	// InvalidUID makes a patch with another UID invalid, instead of a conflict.
	InvalidUID bool

	mu       sync.Mutex
	version  int
	uids     int
	pods     map[string]*v1.Pod
	requests []Request
}

// Client returns a client of the core API.
func (s *Server) Client() rest.Interface {
	return client(&rest.Config{Host: "http://fakeapi", Transport: roundTripper{s}})
}

// ClientOf returns a client of the server at that address, which serves a Server.
func ClientOf(url string) rest.Interface { return client(&rest.Config{Host: url}) }

func client(config *rest.Config) rest.Interface {
	config.QPS = -1
	config.ContentType = "application/json"
	c, err := corev1.NewForConfig(config)
	if err != nil {
		panic(err) // It is the same config in every test.
	}
	return c.RESTClient()
}

// roundTripper carries requests to the server without a network.
type roundTripper struct{ server *Server }

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	if lost := r.server.serve(answer, req); lost {
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		return nil, errors.New("connection refused")
	}
	return answer.Result(), nil
}

// ServeHTTP is part of http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if lost := s.serve(w, r); lost {
		panic(http.ErrAbortHandler)
	}
}

// Put creates or replaces a pod, as a controller would. It returns the pod with its version.
func (s *Server) Put(pod *v1.Pod) *v1.Pod {
	s.mu.Lock()
	pod = s.store(pod.DeepCopy())
	s.mu.Unlock()
	s.changed(pod, false)
	return pod
}

// Update changes a pod, if it exists.
func (s *Server) Update(namespace, name string, change func(*v1.Pod)) {
	s.mu.Lock()
	pod := s.pods[namespace+"/"+name].DeepCopy()
	if pod != nil {
		change(pod)
		pod = s.store(pod)
	}
	s.mu.Unlock()
	if pod != nil {
		s.changed(pod, false)
	}
}

// Get returns the pod of that name, or nil.
func (s *Server) Get(namespace, name string) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[namespace+"/"+name].DeepCopy()
}

// Drop removes a pod at once, if it exists.
func (s *Server) Drop(namespace, name string) {
	s.mu.Lock()
	pod := s.pods[namespace+"/"+name].DeepCopy()
	delete(s.pods, namespace+"/"+name)
	s.version++
	version := s.version
	s.mu.Unlock()
	if pod != nil {
		pod.ResourceVersion = strconv.Itoa(version)
		s.changed(pod, true)
	}
}

// Requests returns the requests so far, in the order of their responses.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request{}, s.requests...)
}

// store sets the pod's version, and a UID if it has none. The caller holds mu.
func (s *Server) store(pod *v1.Pod) *v1.Pod {
	if s.pods == nil {
		s.pods = map[string]*v1.Pod{}
	}
	if pod.UID == "" {
		s.uids++
		pod.UID = types.UID("made-" + strconv.Itoa(s.uids))
	}
	s.version++
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.pods[pod.Namespace+"/"+pod.Name] = pod
	return pod.DeepCopy()
}

func (s *Server) changed(pod *v1.Pod, removed bool) {
	if s.Changed != nil {
		s.Changed(pod.DeepCopy(), removed)
	}
}

var verbs = map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// serve answers a request. lost is set if no response may be sent.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) (lost bool) {
	// /api/v1/namespaces/NAMESPACE/pods[/NAME[/status]]
	path := append(strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/"), "", "")
	req := Request{Verb: verbs[r.Method], Namespace: path[0], Name: path[2], At: time.Now()}
	if r.Body != nil {
		req.Body, _ = io.ReadAll(r.Body)
	}
	var fault Fault
	if s.Fault != nil {
		fault = s.Fault(req)
	}
	if fault.Hangs {
		<-r.Context().Done()
	}
	answer := func() (code int, body any) {
		switch {
		case r.Context().Err() != nil:
			fault.Lost = true
			return 0, nil
		case fault.Code != 0:
			return fault.Code, failure(fault.Code, fault.Message, nil)
		case fault.Lost && !fault.Done:
			return 0, nil
		}
		return s.do(req)
	}
	code, body := answer()
	if fault.Lost {
		code = 0
	}
	req.Code = code
	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.mu.Unlock()
	if fault.Lost {
		return true
	}
	if fault.Foreign {
		http.Error(w, fault.Message, code)
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	if fault.RetryAfter != 0 {
		w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		if status, ok := body.(*metav1.Status); ok {
			status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(fault.RetryAfter)} //nolint:gosec // A few seconds.
		}
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
	return false
}
