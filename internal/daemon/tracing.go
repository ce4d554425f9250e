package daemon

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"
)

// PerMillion is the base of the sampling rate, as in the kubelet's configuration.
const PerMillion = 1_000_000

// Tracing configures the export of spans. Package tracing exports them.
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
	if t.SamplingRatePerMillion < 0 || t.SamplingRatePerMillion > PerMillion {
		return fmt.Errorf("--tracing-sampling-rate-per-million %d: want 0 to %d", t.SamplingRatePerMillion, PerMillion)
	}
	if t.Endpoint == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(t.Endpoint); err != nil || strings.Contains(t.Endpoint, "://") {
		return fmt.Errorf("--tracing-endpoint %s: want host:port", t.Endpoint)
	}
	return nil
}
