package service

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// startSpan begins the span of a delivery, if the revision's trace is sampled: most aren't, and a delivery must cost nothing
// for those.
func (w *watch) startSpan(rev *revision.Revision) trace.Span {
	// Its flags stand last, in hexadecimal; that it is sampled is the lowest bit.
	if flags := rev.Trace.Parent; flags == "" || !strings.ContainsAny(flags[len(flags)-1:], "13579bdf") {
		return noop.Span{}
	}
	carrier := propagation.MapCarrier{"traceparent": rev.Trace.Parent, "tracestate": rev.Trace.State}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	_, span := w.server.cfg.Tracer.Start(ctx, "podconfigd.deliver", trace.WithAttributes(
		attribute.String("podstream.consumer", w.name),
		attribute.Int64("podstream.revision", int64(rev.Number)))) //nolint:gosec // Far from 2^63.
	return span
}
