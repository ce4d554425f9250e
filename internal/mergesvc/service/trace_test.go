package service_test

import (
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/service"
)

// traced returns options of a node whose spans are recorded.
func traced(sampler sdktrace.Sampler) (options, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(spans)).Tracer("test")
	return options{
		hub:     func(c *mergesvc.Config) { c.Tracer = tracer },
		service: func(c *service.Config) { c.Tracer = tracer },
	}, spans
}

// TestTrace: a change, its merge, its commit and each delivery are the spans of one trace, and its traceparent
// is sent to the consumers with the op, in a shared message as well as in a consumer's own message. A set that
// changes nothing produces no trace.
func TestTrace(t *testing.T) {
	o, spans := traced(sdktrace.AlwaysSample())
	n := start(t, o)
	one, other := n.watch(named("one")), n.watch(filtered(byLabel("!none"), nil))
	one.want("synced")
	other.want("synced")
	n.set("file", "a: web()")
	n.set("file", "a: web()")
	var parents []string
	for _, s := range []*stream{one, other} {
		parents = append(parents, s.want("ADD file: web").messages[0].GetUpdate().GetTraceContext().GetTraceparent())
	}
	n.stop()
	var names []string
	var trace, root string
	for _, span := range spans.Ended() {
		names = append(names, span.Name())
		if span.Name() == "podconfigd.change" {
			trace, root = span.SpanContext().TraceID().String(), span.SpanContext().SpanID().String()
			if got := span.StartTime().Unix(); got != 1 {
				t.Errorf("the change begins in second %d; want 1, when the source was read", got)
			}
		}
	}
	slices.Sort(names)
	if got, want := strings.Join(names, " "),
		"podconfigd.change podconfigd.commit podconfigd.deliver podconfigd.deliver podconfigd.merge"; got != want {
		t.Errorf("the spans are %s; want %s", got, want)
	}
	for _, span := range spans.Ended() {
		if span.SpanContext().TraceID().String() != trace || span.Name() != "podconfigd.change" && span.Parent().SpanID().String() != root {
			t.Errorf("span %s is of trace %s under %s; want %s under %s", span.Name(), span.SpanContext().TraceID(),
				span.Parent().SpanID(), trace, root)
		}
	}
	for _, got := range parents {
		if want := "00-" + trace + "-" + root + "-01"; got != want {
			t.Errorf("the op's traceparent is %q; want %q", got, want)
		}
	}
	if len(spans.Started()) != len(spans.Ended()) {
		t.Errorf("%d spans began and %d ended; want all to end", len(spans.Started()), len(spans.Ended()))
	}
}

// TestTraceNotSampled: a trace that isn't sampled is passed on, but no delivery is recorded; without a tracer there
// is none.
func TestTraceNotSampled(t *testing.T) {
	o, spans := traced(sdktrace.NeverSample())
	n := start(t, o)
	s := n.watch(reference(nil))
	s.want("synced")
	n.set("file", "a: web()")
	parent := s.want("ADD file: web").messages[0].GetUpdate().GetTraceContext().GetTraceparent()
	if !strings.HasSuffix(parent, "-00") {
		t.Errorf("the op's traceparent is %q; want one that isn't sampled", parent)
	}
	n.stop()
	if got := len(spans.Started()); got != 0 {
		t.Errorf("%d spans are recorded; want none", got)
	}
	plain := start(t, options{})
	s = plain.watch(reference(nil))
	s.want("synced")
	plain.set("file", "a: web()")
	if got := s.want("ADD file: web").messages[0].GetUpdate().GetTraceContext(); got != nil {
		t.Errorf("without a tracer the op has the trace context %v; want none", got)
	}
}
