package execconfig

import "testing"

func TestTracing(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"by the file": {text: "tracing: {endpoint: '127.0.0.1:9', samplingRatePerMillion: 5}", want: func(s *Settings) {
			s.TracingEndpoint, s.SamplingRatePerMillion = "127.0.0.1:9", 5
		}},
		"the kubelet's default endpoint": {text: "tracing: {samplingRatePerMillion: 5}", want: func(s *Settings) {
			s.TracingEndpoint, s.SamplingRatePerMillion = "localhost:4317", 5
		}},
		"a flag over the file": {text: "tracing: {samplingRatePerMillion: 5}", args: []string{"--tracing-endpoint=[::1]:1"}, want: func(s *Settings) {
			s.TracingEndpoint, s.SamplingRatePerMillion = "[::1]:1", 5
		}},
	})
	testRefused(t, []refused{
		{text: "tracing: {samplingRatePerMillion: 1000001}", want: "/etc/kubelet.yaml:3: tracing.samplingRatePerMillion: it is 1000001"},
		{text: "tracing: {endpoint: 'http://x:1'}", want: "tracing.endpoint: it is \"http://x:1\"; want host:port"},
		{args: []string{"--tracing-endpoint=x"}, want: "--tracing-endpoint: it is \"x\"; want host:port"},
		{args: []string{"--tracing-endpoint=x:1", "--tracing-sampling-rate-per-million=-1"}, want: "--tracing-sampling-rate-per-million: it is -1"},
	})
}
