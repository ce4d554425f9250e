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

// startSpan begins the span of a delivery if the revision's trace is sampled. Most aren't, and then it must cost
// nothing.
func (w *watch) startSpan(rev *revision.Revision) trace.Span {
	// The flags are the last field, in hexadecimal; the lowest bit is set if the trace is sampled.
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
