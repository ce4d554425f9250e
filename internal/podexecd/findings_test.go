package podexecd

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/cluster/apisink"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podset"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// rejecting is a podconfigd with a manifest that it can't use.
type rejecting struct {
	podconfigv1.UnimplementedPodConfigServiceServer
}

func (rejecting) ListSources(context.Context, *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	return &podconfigv1.ListSourcesResponse{Sources: []*podconfigv1.Source{{Name: "file", Findings: []*podconfigv1.Finding{
		{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR, Origin: "/m/web.yaml", Message: "spec is missing"},
	}}}}, nil
}

// sentEvents is an API server that hands on the events that it receives.
func sentEvents(t *testing.T) (<-chan v1.Event, *rest.Config) {
	t.Helper()
	sent := make(chan v1.Event, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e v1.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		sent <- e
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(e)
	}))
	t.Cleanup(server.Close)
	return sent, &rest.Config{Host: server.URL}
}

// nextEvent returns the next event that the API server receives.
func nextEvent(t *testing.T, sent <-chan v1.Event) v1.Event {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	select {
	case e := <-sent:
		return e
	case <-deadline.C:
		t.Fatal("the API server received no event")
		return v1.Event{}
	}
}

// A manifest that podconfigd rejects is an event of the Node at the API server.
func TestRejectedManifestIsAnEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "podconfigd.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podconfigv1.RegisterPodConfigServiceServer(server, rejecting{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	stream, err := client.New(client.Config{Endpoint: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	sent, api := sentEvents(t)
	opts := &Options{node: "n1", settings: &execconfig.Settings{}}
	sink, err := apisink.New(apisink.Config{REST: api, Node: opts.node})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	n := &node{
		opts: opts, stream: stream, log: slog.New(slog.DiscardHandler), events: events.New(events.Config{}),
		cluster: &cluster{opts: opts, sink: sink, pods: podset.New()},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.findings().Run(ctx) }()
	e := nextEvent(t, sent)
	cancel()
	<-done
	const want = "Error validating /m/web.yaml from file, ignoring: podctl sources on the node shows the reason"
	if e.Type != "Warning" || e.Reason != "FailedValidation" || e.Message != want || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name != "n1" {
		t.Errorf("the event is %s %s %q about %+v", e.Type, e.Reason, e.Message, e.InvolvedObject)
	}
}
