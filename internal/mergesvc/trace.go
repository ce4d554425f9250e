package mergesvc

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

func noTracer() trace.Tracer { return noop.NewTracerProvider().Tracer("") }

// startSpan starts the trace of a revision, at the time when its source was read, and puts it into the revision. A
// merge that changed nothing has no trace.
func (h *Hub) startSpan(m *merged) {
	begin := m.rev.Observed
	if begin.IsZero() || begin.After(m.start) {
		begin = m.start
	}
	ctx, span := h.cfg.Tracer.Start(context.Background(), "podconfigd.change", trace.WithTimestamp(begin), trace.WithAttributes(
		attribute.String("podstream.source", m.rev.Source), attribute.Int64("podstream.revision", int64(m.rev.Number)), //nolint:gosec // Far from 2^63.
	))
	m.span = span
	if !span.SpanContext().IsValid() {
		return
	}
	_, merging := h.cfg.Tracer.Start(ctx, "podconfigd.merge", trace.WithTimestamp(m.start))
	merging.End(trace.WithTimestamp(m.end))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	m.rev.Trace = revision.Trace{Parent: carrier["traceparent"], State: carrier["tracestate"]}
}

// endSpan ends the span when the revision is stored. Deliveries are later children of it.
func (h *Hub) endSpan(m *merged, start, end time.Time) {
	if !m.span.SpanContext().IsValid() {
		return
	}
	_, committing := h.cfg.Tracer.Start(trace.ContextWithSpan(context.Background(), m.span), "podconfigd.commit", trace.WithTimestamp(start))
	committing.End(trace.WithTimestamp(end))
	m.span.End(trace.WithTimestamp(end))
}
