package apisink_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apisink"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ events.Sink = (*apisink.Sink)(nil)

// request is a request that the API server received.
type request struct {
	Method, Path string
	Event        v1.Event
}

// server is an API server that accepts events, or does as answer returns.
type server struct {
	*httptest.Server
	requests chan request

	mu sync.Mutex
	// answer is the status for a request; zero: it is taken.
	answer func(request) int
}

func newServer(t *testing.T) *server {
	s := &server{requests: make(chan request, 5000), answer: func(request) int { return 0 }}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got := request{Method: r.Method, Path: r.URL.Path}
		if err == nil {
			err = json.Unmarshal(body, &got.Event)
		}
		if err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		s.mu.Lock()
		answer := s.answer(got)
		s.mu.Unlock()
		s.requests <- got
		w.Header().Set("Content-Type", "application/json")
		if answer != 0 {
			w.WriteHeader(answer)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(answer),
				Reason: metav1.StatusReason(strings.ReplaceAll(http.StatusText(answer), " ", "")), Message: "refused",
			})
			return
		}
		got.Event.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}
		_ = json.NewEncoder(w).Encode(got.Event)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *server) sink(t *testing.T, log io.Writer) *apisink.Sink {
	t.Helper()
	sink, err := apisink.New(apisink.Config{
		REST: &rest.Config{Host: s.URL}, Node: "node-1", Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	return sink
}

func pod(namespace, name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "57", ResourceVersion: "8", Annotations: map[string]string{"kubernetes.io/config.hash": "57"},
		},
		Spec: v1.PodSpec{
			InitContainers:      []v1.Container{{Name: "first"}},
			Containers:          []v1.Container{{Name: "main"}},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
		},
	}
}

// TestEvents: an event equals the kubelet's, so that kubectl finds it, also for a static pod's mirror pod.
func TestEvents(t *testing.T) {
	s := newServer(t)
	sink := s.sink(t, io.Discard)
	for container, path := range map[string]string{
		"": "", "main": "spec.containers{main}", "first": "spec.initContainers{first}", "debug": "spec.ephemeralContainers{debug}",
	} {
		sink.Record(pod("ns", "web"), container, events.Warning, events.FailedSync, "message for "+container)
		got := <-s.requests
		if got.Method != http.MethodPost || got.Path != "/api/v1/namespaces/ns/events" {
			t.Errorf("the request is %s %s; want a POST of an event in ns", got.Method, got.Path)
		}
		e := got.Event
		want := v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "web", UID: "57", ResourceVersion: "8", FieldPath: path,
		}
		if diff := cmp.Diff(want, e.InvolvedObject); diff != "" {
			t.Errorf("container %q: the event is about (-want +got):\n%s", container, diff)
		}
		text := []string{
			e.Namespace, e.Type, e.Reason, e.Message, e.Source.Component, e.Source.Host, e.ReportingController, e.ReportingInstance,
		}
		if diff := cmp.Diff([]string{
			"ns", "Warning", "FailedSync", "message for " + container, "kubelet", "node-1", "kubelet", "node-1",
		}, text); diff != "" {
			t.Errorf("container %q: the event says (-want +got):\n%s", container, diff)
		}
		if e.Count != 1 || e.FirstTimestamp.IsZero() || !strings.HasPrefix(e.Name, "web.") {
			t.Errorf("container %q: the event is %s, %d times since %s; want once", container, e.Name, e.Count, e.FirstTimestamp)
		}
	}
}

// TestNodeEvents: an event of the node goes where `kubectl describe node` finds it.
func TestNodeEvents(t *testing.T) {
	s := newServer(t)
	s.sink(t, io.Discard).RecordNode("node-1", events.Normal, "NodeReady", "Node node-1 status is now: NodeReady")
	got := <-s.requests
	want := v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: "node-1", UID: "node-1"}
	if diff := cmp.Diff(want, got.Event.InvolvedObject); diff != "" || got.Path != "/api/v1/namespaces/default/events" {
		t.Errorf("the event, at %s, is about (-want +got):\n%s", got.Path, diff)
	}
}

// TestNodeEventsAreBounded: the message of an event of the Node may quote the container runtime.
func TestNodeEventsAreBounded(t *testing.T) {
	s := newServer(t)
	s.sink(t, io.Discard).RecordNode("node-1", events.Warning, events.ContainerGCFailed, "\xff"+strings.Repeat("x", 5000))
	if got := (<-s.requests).Event.Message; got != "\uFFFD"+strings.Repeat("x", 4093)+"…" {
		t.Errorf("the message has %d bytes, and begins with %.10q", len(got), got)
	}
}

// TestCounts: an event that repeats is counted up, and not made again.
func TestCounts(t *testing.T) {
	s := newServer(t)
	sink := s.sink(t, io.Discard)
	for range 2 {
		sink.Record(pod("ns", "web"), "main", events.Warning, events.BackOffStart, "wait")
	}
	first, second := <-s.requests, <-s.requests
	if first.Method != http.MethodPost || second.Method != http.MethodPatch || second.Event.Count != 2 ||
		!strings.HasSuffix(second.Path, "/"+first.Event.Name) {
		t.Errorf("the requests are %s, then %s %s with count %d; want that the first event's count is 2", first.Method,
			second.Method, second.Path, second.Event.Count)
	}
}

// TestRefused: an event that the server rejects doesn't delay others; the log has one line for its namespace.
func TestRefused(t *testing.T) {
	s := newServer(t)
	refusing := true
	s.answer = func(r request) int {
		if refusing && r.Event.Namespace == "gone" {
			return http.StatusNotFound
		}
		return 0
	}
	var log logtest.Buffer
	sink := s.sink(t, &log)
	for n := range 3 {
		sink.Record(pod("gone", "web"), "", events.Normal, fmt.Sprint("Reason", n), "m")
		sink.Record(pod("ns", "web"), "", events.Normal, fmt.Sprint("Reason", n), "m")
	}
	for range 6 {
		<-s.requests
	}
	s.mu.Lock()
	refusing = false
	s.mu.Unlock()
	sink.Record(pod("gone", "web"), "", events.Normal, "Last", "m")
	// The next one is sent after what there was to say of that.
	sink.Record(pod("ns", "web"), "", events.Normal, "Last", "m")
	<-s.requests
	<-s.requests
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || strings.Count(text, "namespace=gone") != 2 ||
		!strings.Contains(text, "can be sent to the API server again") {
		t.Errorf("the log is as follows; want a warning about namespace gone, and its end:\n%s", text)
	}
}

// TestHanging: while the server hangs, no caller blocks, excess events are dropped, and Close ends the requests.
func TestHanging(t *testing.T) {
	s := newServer(t)
	hold := make(chan struct{})
	reached := make(chan struct{}, 1)
	s.answer = func(request) int {
		select {
		case reached <- struct{}{}:
		default:
		}
		<-hold
		return 0
	}
	var log logtest.Buffer
	sink := s.sink(t, &log)
	sink.Record(pod("ns", "web"), "", events.Normal, "First", "m")
	<-reached
	for n := range 5000 {
		sink.Record(pod("ns", fmt.Sprint("web", n)), "", events.Normal, "Reason", "m")
	}
	sink.Close()
	sink.Record(pod("ns", "web"), "", events.Normal, "Late", "m")
	close(hold)
	if text := log.String(); text != "" {
		t.Errorf("the log says, though nothing is wrong:\n%s", text)
	}
}

// TestBadConfig: an unusable configuration is an error of New.
func TestBadConfig(t *testing.T) {
	if sink, err := apisink.New(apisink.Config{REST: &rest.Config{Host: "http://\x7f"}}); err == nil {
		sink.Close()
		t.Error("New takes a host that is none")
	}
}

// TestClaimEvents: an event of a claim goes where `kubectl describe pvc` finds it.
func TestClaimEvents(t *testing.T) {
	s := newServer(t)
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1", ResourceVersion: "7"}}
	s.sink(t, io.Discard).RecordClaim(claim, events.Normal, events.FileSystemResizeSuccessful, "expanded")
	got := <-s.requests
	want := v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "shop", Name: "data", UID: "u1", ResourceVersion: "7"}
	if diff := cmp.Diff(want, got.Event.InvolvedObject); diff != "" || got.Path != "/api/v1/namespaces/shop/events" {
		t.Errorf("the event, at %s, is about (-want +got):\n%s", got.Path, diff)
	}
}
