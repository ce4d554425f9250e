package tracing

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/daemon"
)

// Provider returns the daemon's tracer provider, and a function that ends it and sends waiting spans, for at most 3
// s. If the collector can't be reached, only spans are lost.
func Provider(ctx context.Context, t daemon.Tracing, name string) (trace.TracerProvider, func(), error) {
	if t.Endpoint == "" {
		return noop.NewTracerProvider(), func() {}, nil
	}
	if err := t.Check(); err != nil {
		return nil, nil, err
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(t.Endpoint), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, nil, fmt.Errorf("--tracing-endpoint %s: %w", t.Endpoint, err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(t.SamplingRatePerMillion)/daemon.PerMillion))),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(name))),
	)
	return provider, func() {
		const patience = 3 * time.Second
		// The daemon's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = provider.Shutdown(ctx) // The loss of the last spans can't be reported.
	}, nil
}

// ServerOptions returns the options that make a span of each call; none without an endpoint.
func ServerOptions(t daemon.Tracing, provider trace.TracerProvider) []grpc.ServerOption {
	if t.Endpoint == "" {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(provider), otelgrpc.WithPropagators(propagation.TraceContext{}),
	))}
}
