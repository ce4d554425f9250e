package e2e

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// collector is an OpenTelemetry collector. It has the names of the spans of each trace.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans map[string]map[string]bool
}

// startCollector serves a collector until the test ends, and returns its address.
func startCollector(t *testing.T) (*collector, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	c := &collector{spans: map[string]map[string]bool{}}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // It ends with Stop.
	}()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return c, listener.Addr().String()
}

func (c *collector) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				id := hex.EncodeToString(span.GetTraceId())
				if c.spans[id] == nil {
					c.spans[id] = map[string]bool{}
				}
				c.spans[id][span.GetName()] = true
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// lacking returns an error unless one trace has all the spans.
func (c *collector) lacking(names ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for id, spans := range c.spans {
		var lacks []string
		for _, name := range names {
			if !spans[name] {
				lacks = append(lacks, name)
			}
		}
		if len(lacks) == 0 {
			return nil
		}
		errs = append(errs, fmt.Errorf("trace %s lacks %q", id, lacks))
	}
	return errors.Join(append(errs, errors.New("no trace has all spans"))...)
}

// TestTrace: one trace leads from the change of a manifest through the stream to the start of a container, and another
// one from the manifest's removal to the end of the pod.
func TestTrace(t *testing.T) {
	r := newRig(t, startNode(t, devnode.Sim))
	spans, address := startCollector(t)
	for _, process := range []*devnode.Process{r.Podconfigd, r.Podexecd} {
		check(t, process.Kill())
		process.Args = append(process.Args, "--tracing-endpoint", address)
	}
	r.Podconfigd.Args = append(r.Podconfigd.Args, "--tracing-sampling-rate-per-million", "1000000")
	check(t, r.Podconfigd.Start())
	check(t, r.Podexecd.Start())
	r.eventually("podexecd follows the stream", func() error {
		list, err := r.Config.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
		for _, c := range list.GetConsumers() {
			if !c.GetObjects() && c.GetState() == podconfigv1.ConsumerState_CONSUMER_STATE_LIVE {
				return nil
			}
		}
		return errors.Join(err, errors.New("it doesn't"))
	})
	const runtime = "runtime.v1.RuntimeService/"
	r.write("web.yaml", manifest("traced", "a: sleep"))
	r.eventually("the start of the pod is one trace", func() error {
		return spans.lacking("podconfigd.change", "podconfigd.deliver", "syncPod", runtime+"RunPodSandbox", runtime+"StartContainer")
	})
	r.remove("web.yaml")
	r.eventually("the end of the pod is one trace", func() error {
		return spans.lacking("podconfigd.change", "podconfigd.deliver", "syncTerminatingPod", runtime+"StopPodSandbox", "syncTerminatedPod")
	})
}
