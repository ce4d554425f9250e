package execconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/imagepolicy"
)

func TestFeatureGates(t *testing.T) {
	unchanged := func(*Settings) {}
	testAccepted(t, map[string]accepted{
		"a reduced backoff": {
			text: "featureGates: {ReduceDefaultCrashLoopBackOffDecay: true}",
			want: func(s *Settings) { s.RestartBackoff = Backoff{time.Second, time.Minute} },
		},
		"a reduced backoff, whose maximum is set": {
			text: "featureGates: {ReduceDefaultCrashLoopBackOffDecay: true}\ncrashLoopBackOff: {maxContainerRestartPeriod: 20s}",
			want: func(s *Settings) { s.RestartBackoff = Backoff{time.Second, 20 * time.Second} },
		},
		"a flag over the file": {
			text: "featureGates: {ReduceDefaultCrashLoopBackOffDecay: true, MemoryQoS: false}",
			args: []string{"--feature-gates=ReduceDefaultCrashLoopBackOffDecay=false"},
			want: unchanged,
		},
		"no memory QoS": {
			text: "featureGates: {MemoryQoS: false}\nmemoryThrottlingFactor: 0.9", want: unchanged,
		},
		"no check of images": {
			text: "featureGates: {KubeletEnsureSecretPulledImages: false}",
			want: func(s *Settings) { s.VerificationPolicy = imagepolicy.NeverVerify },
		},
		"no tokens for credential providers": {
			args: []string{"--feature-gates=KubeletServiceAccountTokenForCredentialProviders=false"},
			want: func(s *Settings) { s.NoCredentialProviderTokens = true },
		},
		"no maximum of the backoff": {text: "featureGates: {KubeletCrashLoopBackOffMax: false}", want: unchanged},
		"none":                      {args: []string{"--feature-gates="}, want: unchanged},
		"unknown": {
			text: "featureGates: {NoSuchGate: true}",
			want: func(s *Settings) { s.Warnings = []string{"feature gate NoSuchGate is unknown, and has no effect"} },
		},
	})
}

// TestGateIsOff: a field that needs a gate which is off is an error, as with the kubelet.
func TestGateIsOff(t *testing.T) {
	for gate, field := range map[string]string{
		"RotateKubeletServerCertificate":         "serverTLSBootstrap: true",
		"GracefulNodeShutdown":                   "shutdownGracePeriod: 10s",
		"GracefulNodeShutdownBasedOnPodPriority": "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 5}]",
		"KubeletCrashLoopBackOffMax":             "crashLoopBackOff: {maxContainerRestartPeriod: 20s}",
		"KubeletEnsureSecretPulledImages":        "imagePullCredentialsVerificationPolicy: NeverVerify",
		"MemoryQoS":                              "memoryThrottlingFactor: 0.5",
		"CustomCPUCFSQuotaPeriod":                "cpuCFSQuotaPeriod: 50ms",
	} {
		if _, err := settle(t, field+"\nfeatureGates: {"+gate+": true}"); err != nil {
			t.Errorf("with %s: %v", gate, err)
		}
		name, _, _ := strings.Cut(field, ":")
		if _, err := settle(t, field, "--feature-gates="+gate+"=false"); err == nil || !strings.Contains(err.Error(), name+": it needs the feature gate "+gate) {
			t.Errorf("without %s the error is %v; want one about %s", gate, err, name)
		}
	}
	if _, err := settle(t, "featureGates: {NodeSwap: false}"); err == nil || !strings.Contains(err.Error(), "NodeSwap is false; it is locked to true") {
		t.Errorf("a locked gate gives %v", err)
	}
}
