package execconfig

import (
	"maps"
	"time"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/imagepolicy"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/gates"
)

// The pauses between restarts with the gate ReduceDefaultCrashLoopBackOffDecay.
const (
	reducedRestartBase = time.Second
	reducedRestartMax  = time.Minute
)

// parseGates parses featureGates and --feature-gates, which takes precedence for each gate.
func (s *Settings) parseGates(flags map[string]bool, file *kubeletconfig.Config) (mistakes []error) {
	set := map[string]bool{}
	maps.Copy(set, file.FeatureGates)
	maps.Copy(set, flags)
	s.gates, mistakes = gates.New(set)
	s.Warnings = append(s.Warnings, s.gates.Warnings...)
	file.FeatureGates = set // Unsupported fields may depend on a gate, too.
	return mistakes
}

// Gates returns the feature gates.
func (s *Settings) Gates() *gates.Gates { return s.gates }

// reduceRestartBackoff sets the pauses of the gate ReduceDefaultCrashLoopBackOffDecay, before the file and flags do.
func (f *Flags) reduceRestartBackoff(s *Settings) {
	if !s.gates.Enabled(gates.ReduceDefaultCrashLoopBackOffDecay) {
		return
	}
	take(f.set, "crash-loop-backoff-base", &s.RestartBackoff.Base, reducedRestartBase)
	take(f.set, "crash-loop-backoff-max", &s.RestartBackoff.Max, reducedRestartMax)
}

// withoutGates sets what gates that are off switch off, in Settings that were checked.
func (s *Settings) withoutGates() {
	if !s.gates.Enabled(gates.MemoryQoS) {
		s.MemoryThrottlingFactor, s.ReserveMemory = 0, false
	}
	if !s.gates.Enabled(gates.KubeletEnsureSecretPulledImages) {
		s.VerificationPolicy = imagepolicy.NeverVerify
	}
	s.NoCredentialProviderTokens = !s.gates.Enabled(gates.KubeletServiceAccountTokenForCredentialProviders)
}

// gatesInto removes fields that are refused beside a gate that is off.
func (s *Settings) gatesInto(c *kubeletconfigv1beta1.KubeletConfiguration) {
	if !s.gates.Enabled(gates.KubeletEnsureSecretPulledImages) {
		c.ImagePullCredentialsVerificationPolicy = ""
	}
	if !s.gates.Enabled(gates.KubeletCrashLoopBackOffMax) {
		c.CrashLoopBackOff.MaxContainerRestartPeriod = nil
	}
}

// checkGates calls wrong for each field that needs a gate that is off. The rules are the kubelet's.
func (s *Settings) checkGates(file *kubeletconfig.Config, wrong func(flag, field, reason string)) {
	c := &file.KubeletConfiguration
	for _, needed := range []struct {
		gate, flag, field string
		set               bool
	}{
		{gates.RotateKubeletServerCertificate, "rotate-server-certificates", "serverTLSBootstrap", s.ServerTLSBootstrap},
		{gates.GracefulNodeShutdown, "", "shutdownGracePeriod", s.ShutdownGracePeriod > 0},
		{gates.GracefulNodeShutdown, "", "shutdownGracePeriodCriticalPods", s.ShutdownGracePeriodCriticalPods > 0},
		{gates.GracefulNodeShutdownBasedOnPodPriority, "", "shutdownGracePeriodByPodPriority", len(s.ShutdownGracePeriodByPodPriority) > 0},
		{gates.KubeletCrashLoopBackOffMax, "", "crashLoopBackOff", c.CrashLoopBackOff.MaxContainerRestartPeriod != nil},
		{gates.KubeletEnsureSecretPulledImages, "", "imagePullCredentialsVerificationPolicy", c.ImagePullCredentialsVerificationPolicy != ""},
		{gates.KubeletEnsureSecretPulledImages, "", "preloadedImagesVerificationAllowlist", len(c.PreloadedImagesVerificationAllowlist) > 0},
		{gates.MemoryQoS, "", "memoryThrottlingFactor", c.MemoryThrottlingFactor != nil && *c.MemoryThrottlingFactor != ungatedThrottlingFactor},
		{gates.MemoryQoS, "", "memoryReservationPolicy", s.ReserveMemory},
		{gates.CustomCPUCFSQuotaPeriod, "cpu-cfs-quota-period", "cpuCFSQuotaPeriod", s.CPUQuotaPeriod != defaultCPUQuotaPeriod},
	} {
		if needed.set && !s.gates.Enabled(needed.gate) {
			wrong(needed.flag, needed.field, "it needs the feature gate "+needed.gate)
		}
	}
}

const (
	// ungatedThrottlingFactor is the value of memoryThrottlingFactor that the kubelet accepts without MemoryQoS: it was the
	// default when that gate was off.
	ungatedThrottlingFactor = 0.9
	defaultCPUQuotaPeriod   = 100 * time.Millisecond
)
