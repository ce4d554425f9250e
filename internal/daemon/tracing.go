package daemon

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
)

// million is the base of the sampling rate, as in the kubelet's configuration.
const million = 1_000_000

// Tracing configures the export of spans.
type Tracing struct {
	// Endpoint is the host:port of an OpenTelemetry collector that accepts OTLP over gRPC. Empty: no spans are made.
	Endpoint string
	// SamplingRatePerMillion is the number of traces of a million that are kept.
	SamplingRatePerMillion int
}

// AddFlags adds the flags to fs, named after the fields of the kubelet's tracing configuration.
func (t *Tracing) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.Endpoint, "tracing-endpoint", "",
		"`host:port` of an OpenTelemetry collector (OTLP over gRPC, without TLS, so on this node) to send spans to; default: none")
	fs.IntVar(&t.SamplingRatePerMillion, "tracing-sampling-rate-per-million", 0, "how `many` of a million traces are sent")
}

// Check returns an error if the flags are invalid.
func (t *Tracing) Check() error {
	if t.SamplingRatePerMillion < 0 || t.SamplingRatePerMillion > million {
		return fmt.Errorf("--tracing-sampling-rate-per-million %d: want 0 to %d", t.SamplingRatePerMillion, million)
	}
	if t.Endpoint == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(t.Endpoint); err != nil || strings.Contains(t.Endpoint, "://") {
		return fmt.Errorf("--tracing-endpoint %s: want host:port", t.Endpoint)
	}
	return nil
}

// Provider returns the daemon's tracer provider, and a function that ends it and sends waiting spans, for at most 3
// s. If the collector can't be reached, only spans are lost.
func (t *Tracing) Provider(ctx context.Context, name string) (trace.TracerProvider, func(), error) {
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
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(t.SamplingRatePerMillion)/million))),
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
func (t *Tracing) ServerOptions(provider trace.TracerProvider) []grpc.ServerOption {
	if t.Endpoint == "" {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(provider), otelgrpc.WithPropagators(propagation.TraceContext{}),
	))}
}
