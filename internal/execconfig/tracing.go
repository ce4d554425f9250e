package execconfig

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// Tracing configures the export of spans. There are flags besides the field, as for podconfigd.
type Tracing struct {
	// TracingEndpoint is the host:port of an OpenTelemetry collector that accepts OTLP over gRPC. Empty: no spans are made.
	TracingEndpoint string
	// SamplingRatePerMillion is how many of a million traces that begin in podexecd are kept. A trace that began in
	// podconfigd is kept if podconfigd keeps it.
	SamplingRatePerMillion int
}

// defaultTracingEndpoint is that of the field tracing, as with the kubelet.
const defaultTracingEndpoint = "localhost:4317"

// supportedOfTracing are the fields of a KubeletConfiguration that set a Tracing.
var supportedOfTracing = []string{"tracing"}

func (t *Tracing) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.TracingEndpoint, "tracing-endpoint", "",
		"`host:port` of an OpenTelemetry collector (OTLP over gRPC, without TLS, so on this node) to send spans to; default: none")
	fs.IntVar(&t.SamplingRatePerMillion, "tracing-sampling-rate-per-million", 0, "how `many` of a million traces that begin here are sent")
}

func (t *Tracing) fromFile(set *pflag.FlagSet, c *kubeletconfigv1beta1.KubeletConfiguration) {
	if c.Tracing == nil {
		return
	}
	take(set, "tracing-endpoint", &t.TracingEndpoint, ptr.Deref(c.Tracing.Endpoint, defaultTracingEndpoint))
	if rate := c.Tracing.SamplingRatePerMillion; rate != nil {
		take(set, "tracing-sampling-rate-per-million", &t.SamplingRatePerMillion, int(*rate))
	}
}

func (t *Tracing) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.Tracing = nil
	if t.TracingEndpoint != "" {
		c.Tracing = &tracingv1.TracingConfiguration{Endpoint: &t.TracingEndpoint, SamplingRatePerMillion: number(t.SamplingRatePerMillion)}
	}
}

// check calls wrong for each invalid setting.
func (t *Tracing) check(wrong func(flag, field, reason string)) {
	const million = 1_000_000
	if t.SamplingRatePerMillion < 0 || t.SamplingRatePerMillion > million {
		wrong("tracing-sampling-rate-per-million", "tracing.samplingRatePerMillion", fmt.Sprintf("it is %d; want 0 to %d", t.SamplingRatePerMillion, million))
	}
	if t.TracingEndpoint == "" {
		return
	}
	if _, _, err := net.SplitHostPort(t.TracingEndpoint); err != nil || strings.Contains(t.TracingEndpoint, "://") {
		wrong("tracing-endpoint", "tracing.endpoint", fmt.Sprintf("it is %q; want host:port", t.TracingEndpoint))
	}
}
