package execconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
	"github.com/podstream/podstream/internal/kubeletconfig/gates"
)

// Settings configure podexecd. Names and defaults are the kubelet's, except where noted.
type Settings struct {
	// RuntimeEndpoint and ImageEndpoint are CRI sockets, unix:///path.
	RuntimeEndpoint, ImageEndpoint string
	// PodLogsDir is the absolute path of the pods' logs.
	PodLogsDir string
	// RequestTimeout is the time limit for calls to the runtime, except pulls and stops: 2 min.
	RequestTimeout time.Duration
	// SyncFrequency is the time between two syncs of a pod without events: 1 min.
	SyncFrequency time.Duration
	Pulls         Pulls
	// RestartBackoff is the pause between restarts of a crashing container, PullBackoff between failing pulls: 10 s
	// to 5 min.
	RestartBackoff, PullBackoff Backoff
	// EventQPS and EventBurst limit the events sent to the API server: 50 and 100. A rate of zero means no limit.
	EventQPS   float32
	EventBurst int
	DeadContainers
	ImageGC     ImageGC
	LogRotation LogRotation
	ImageAccess
	Tracing
	Node
	Host
	Shutdown
	Cluster
	// CredentialProviderConfig is the path of a CredentialProviderConfig, CredentialProviderBinDir the directory of
	// its plugins.
	CredentialProviderConfig, CredentialProviderBinDir string
	// NoCredentialProviderTokens refuses plugins that receive service account tokens.
	NoCredentialProviderTokens bool
	// Kubeconfig is the kubeconfig of the API server of this node's cluster. Empty: a standalone node.
	Kubeconfig string

	// Unsupported are the fields of the configuration that are set, not supported by this version, and harmless to
	// ignore; Podconfigd the fields for podconfigd, and Ignored the fields that neither daemon uses.
	Unsupported, Podconfigd, Ignored []string
	// Warnings are unknown and repeated fields, with file and line, and thresholds without an effect.
	Warnings []string

	// Exceptions are the settings that have Podstream's default, in place of the kubelet's, with the reason.
	Exceptions []string

	// file is the merged configuration of the files, with the gates of flags; gates are the feature gates.
	file  *kubeletconfigv1beta1.KubeletConfiguration
	gates *gates.Gates
}

// Pulls limit image pulls.
type Pulls struct {
	// Serial pulls one image at a time. The kubelet's default is true, Podstream's false: runtimes have supported
	// parallel pulls for years.
	Serial bool
	// MaxParallel is the number of parallel pulls; zero means no limit.
	MaxParallel int
	// QPS and Burst are the rate of pulls: 5 and 10. A rate of zero means no limit.
	QPS   float32
	Burst int
}

// Backoff is a pause that doubles from Base to Max.
type Backoff struct{ Base, Max time.Duration }

// DeadContainers configures how many exited containers are kept.
type DeadContainers struct {
	// MaxPerContainer is the number for each container of a pod: 1, besides the running one. MaxDead is the total;
	// negative: no limit.
	MaxPerContainer, MaxDead int
	// MinAge is how long each is kept at least.
	MinAge time.Duration
}

// supported are the fields of a KubeletConfiguration that set Settings.
var supported = map[string]bool{
	"containerRuntimeEndpoint": true, "imageServiceEndpoint": true, "podLogsDir": true, "runtimeRequestTimeout": true, "syncFrequency": true,
	"serializeImagePulls": true, "maxParallelImagePulls": true, "registryPullQPS": true, "registryBurst": true,
	"crashLoopBackOff": true, "eventRecordQPS": true, "eventBurst": true, "featureGates": true,
}

// Settle returns the Settings of parsed flags and of configuration files.
func (f *Flags) Settle(files []kubeletconfig.File) (*Settings, error) {
	docs, err := kubeletconfig.Parse(files)
	if err != nil {
		return nil, err
	}
	file, err := kubeletconfig.Merge(docs)
	if err != nil {
		return nil, err
	}
	s, texts := f.values, f.texts
	s.file = &file.KubeletConfiguration
	s.Warnings, s.Ignored, s.Podconfigd = file.Warnings, file.Ignored(), file.Podconfigd()
	wrongGates := s.parseGates(f.featureGates, file)
	var unsafe []error
	s.Unsupported, unsafe = settleUnsupported(file, f.ofFields.into(f.set, &file.KubeletConfiguration))
	s.Warnings = append(s.Warnings, f.withoutEffect()...)
	f.reduceRestartBackoff(&s)
	f.fromFile(&s, file)
	s.Node.fromFile(f.set, &file.KubeletConfiguration)
	s.ImageGC.fromFile(f.set, &file.KubeletConfiguration)
	s.LogRotation.fromFile(f.set, &file.KubeletConfiguration)
	s.Host.fromFile(f.set, &file.KubeletConfiguration)
	s.Warnings = append(s.Warnings, s.Host.warnings()...)
	s.Shutdown.fromFile(&file.KubeletConfiguration)
	s.ImageAccess.fromFile(&file.KubeletConfiguration)
	s.Tracing.fromFile(f.set, &file.KubeletConfiguration)
	s.Cluster.fromFile(f.set, file, docs, &texts, s.Kubeconfig != "")
	s.Warnings = append(s.Warnings, s.derivedThresholds()...)
	s.RuntimeEndpoint, s.ImageEndpoint = withScheme(s.RuntimeEndpoint), withScheme(s.ImageEndpoint)
	if s.ImageEndpoint == "" {
		s.ImageEndpoint = s.RuntimeEndpoint
	}
	if s.PodLogsDir, err = filepath.Abs(s.PodLogsDir); err != nil {
		return nil, fmt.Errorf("--pod-logs-dir: %w", err)
	}
	s.Exceptions = exceptions(f.set, s.file)
	mistakes := slices.Concat(unsafe, wrongGates, f.check(&s, &texts, file))
	s.withoutGates()
	return &s, errors.Join(mistakes...)
}

// withScheme returns the URL of a socket that is given by its path, as old command lines do.
func withScheme(endpoint string) string {
	if strings.HasPrefix(endpoint, "/") {
		return "unix://" + endpoint
	}
	return endpoint
}

// fromFile sets what the file sets and no flag does.
func (f *Flags) fromFile(s *Settings, file *kubeletconfig.Config) {
	c := &file.KubeletConfiguration
	take(f.set, "container-runtime-endpoint", &s.RuntimeEndpoint, c.ContainerRuntimeEndpoint)
	take(f.set, "image-service-endpoint", &s.ImageEndpoint, c.ImageServiceEndpoint)
	take(f.set, "pod-logs-dir", &s.PodLogsDir, c.PodLogsDir)
	take(f.set, "runtime-request-timeout", &s.RequestTimeout, c.RuntimeRequestTimeout.Duration)
	take(f.set, "sync-frequency", &s.SyncFrequency, c.SyncFrequency.Duration)
	takePointer(f.set, "serialize-image-pulls", &s.Pulls.Serial, c.SerializeImagePulls)
	if c.MaxParallelImagePulls != nil {
		takePointer(f.set, "max-parallel-image-pulls", &s.Pulls.MaxParallel, ptr.To(int(*c.MaxParallelImagePulls)))
	}
	if c.RegistryPullQPS != nil {
		takePointer(f.set, "registry-qps", &s.Pulls.QPS, ptr.To(float32(*c.RegistryPullQPS)))
	}
	take(f.set, "registry-burst", &s.Pulls.Burst, int(c.RegistryBurst))
	if c.EventRecordQPS != nil {
		takePointer(f.set, "event-qps", &s.EventQPS, ptr.To(float32(*c.EventRecordQPS)))
	}
	take(f.set, "event-burst", &s.EventBurst, int(c.EventBurst))
	if longest := c.CrashLoopBackOff.MaxContainerRestartPeriod; longest != nil {
		takePointer(f.set, "crash-loop-backoff-max", &s.RestartBackoff.Max, &longest.Duration)
		if !f.set.Changed("crash-loop-backoff-base") {
			s.RestartBackoff.Base = min(s.RestartBackoff.Base, s.RestartBackoff.Max)
		}
	}
}

// take sets the setting to the file's value, unless that is zero or the flag was given.
func take[T comparable](set *pflag.FlagSet, flag string, setting *T, value T) {
	var zero T
	if value != zero && !set.Changed(flag) {
		*setting = value
	}
}

// takePointer is take for a field in which zero has a meaning.
func takePointer[T any](set *pflag.FlagSet, flag string, setting, value *T) {
	if value != nil && !set.Changed(flag) {
		*setting = *value
	}
}

// check finds invalid settings, each named as it was given: by the flag, or by the file and line of the field.
func (f *Flags) check(s *Settings, texts *clusterTexts, file *kubeletconfig.Config) (mistakes []error) {
	wrong := func(flag, field, reason string) {
		if field == "" || f.set.Changed(flag) {
			mistakes = append(mistakes, fmt.Errorf("--%s: %s", flag, reason))
			return
		}
		mistakes = append(mistakes, file.Mistake(document.Field(strings.Split(field, ".")), reason))
	}
	for _, e := range []struct{ flag, field, value string }{
		{"container-runtime-endpoint", "containerRuntimeEndpoint", s.RuntimeEndpoint},
		{"image-service-endpoint", "imageServiceEndpoint", s.ImageEndpoint},
	} {
		if !strings.HasPrefix(e.value, "unix:///") {
			wrong(e.flag, e.field, fmt.Sprintf("it is %q; want unix:///path", e.value))
		}
	}
	for _, d := range []struct {
		flag, field string
		value       time.Duration
	}{
		{"runtime-request-timeout", "runtimeRequestTimeout", s.RequestTimeout}, {"sync-frequency", "syncFrequency", s.SyncFrequency},
		{"crash-loop-backoff-base", "", s.RestartBackoff.Base}, {"image-pull-backoff-base", "", s.PullBackoff.Base},
	} {
		if d.value <= 0 {
			wrong(d.flag, d.field, "it must be more than zero")
		}
	}
	for _, b := range []struct {
		flag, field string
		value       Backoff
	}{
		{"crash-loop-backoff-max", "crashLoopBackOff.maxContainerRestartPeriod", s.RestartBackoff}, {"image-pull-backoff-max", "", s.PullBackoff},
	} {
		if b.value.Max < b.value.Base {
			wrong(b.flag, b.field, fmt.Sprintf("it is %v, less than the first pause of %v", b.value.Max, b.value.Base))
		}
	}
	for _, n := range []struct {
		flag, field string
		value       float64
	}{
		{"max-parallel-image-pulls", "maxParallelImagePulls", float64(s.Pulls.MaxParallel)},
		{"registry-qps", "registryPullQPS", float64(s.Pulls.QPS)}, {"registry-burst", "registryBurst", float64(s.Pulls.Burst)},
		{"event-qps", "eventRecordQPS", float64(s.EventQPS)}, {"event-burst", "eventBurst", float64(s.EventBurst)},
		{"maximum-dead-containers-per-container", "", float64(s.MaxPerContainer)}, {"minimum-container-ttl-duration", "", float64(s.MinAge)},
	} {
		if n.value < 0 {
			wrong(n.flag, n.field, "it must not be less than zero")
		}
	}
	s.Node.check(file, wrong)
	s.Host.check(&s.Node, wrong)
	if s.SystemCgroups != "" && file.CgroupRoot == "" && !f.set.Changed("cgroup-root") {
		wrong("system-cgroups", "systemCgroups", "it needs cgroupRoot (--cgroup-root), such as /")
	}
	checkBounds(file, wrong)
	s.ImageGC.check(wrong)
	s.LogRotation.check(wrong)
	s.Shutdown.check(wrong)
	s.ImageAccess.check(wrong)
	s.Tracing.check(wrong)
	s.Cluster.check(texts, s.Kubeconfig, wrong)
	s.checkGates(file, wrong)
	if s.Pulls.Serial && s.Pulls.MaxParallel > 1 {
		wrong("max-parallel-image-pulls", "maxParallelImagePulls", "it can't be more than 1 while images are pulled one at a time")
	}
	if (s.CredentialProviderConfig == "") != (s.CredentialProviderBinDir == "") {
		wrong("image-credential-provider-config", "", "it goes together with --image-credential-provider-bin-dir")
	}
	return mistakes
}
