package execconfig

import (
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// Flags are podexecd's flags that have a field in KubeletConfiguration, and others about how pods run.
type Flags struct {
	values Settings
	texts  clusterTexts
	set    *pflag.FlagSet
	// featureGates are those of --feature-gates.
	featureGates map[string]bool
	ofFields     flagsOfFields
}

// AddFlags adds them to fs, with their defaults.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	f.set = fs
	v := &f.values
	fs.StringVar(&v.RuntimeEndpoint, "container-runtime-endpoint", "unix:///run/containerd/containerd.sock",
		"the container runtime's CRI `socket`, unix:///path")
	fs.StringVar(&v.ImageEndpoint, "image-service-endpoint", "", "the CRI `socket` for images; default: --container-runtime-endpoint")
	fs.StringVar(&v.PodLogsDir, "pod-logs-dir", "/var/log/pods",
		"`directory` of the pods' logs; links to them are in containers, next to it")
	fs.DurationVar(&v.RequestTimeout, "runtime-request-timeout", 2*time.Minute, "`time` limit for calls to the runtime, except pulls and stops")
	fs.DurationVar(&v.SyncFrequency, "sync-frequency", time.Minute, "`time` between two syncs of a pod without events")
	fs.BoolVar(&v.Pulls.Serial, "serialize-image-pulls", false, "pull images one at a time")
	fs.IntVar(&v.Pulls.MaxParallel, "max-parallel-image-pulls", 0, "`number` of parallel image pulls; 0: no limit")
	fs.Float32Var(&v.Pulls.QPS, "registry-qps", 5, "`number` of pulls per second, on average; 0: no limit")
	fs.IntVar(&v.Pulls.Burst, "registry-burst", 10, "`number` of pulls that may begin at once, within --registry-qps")
	fs.DurationVar(&v.RestartBackoff.Base, "crash-loop-backoff-base", 10*time.Second, "`pause` before a crashing container's second restart; it doubles")
	fs.DurationVar(&v.RestartBackoff.Max, "crash-loop-backoff-max", 5*time.Minute, "longest `pause` before a restart")
	fs.DurationVar(&v.PullBackoff.Base, "image-pull-backoff-base", 10*time.Second, "`pause` after a failed pull; it doubles")
	fs.DurationVar(&v.PullBackoff.Max, "image-pull-backoff-max", 5*time.Minute, "longest `pause` after a failed pull")
	fs.StringVar(&v.CredentialProviderConfig, "image-credential-provider-config", "",
		"`file` or directory of a CredentialProviderConfig: which plugins know the registries' passwords")
	fs.StringVar(&v.CredentialProviderBinDir, "image-credential-provider-bin-dir", "", "`directory` of those plugins")
	fs.IntVar(&v.MaxPerContainer, "maximum-dead-containers-per-container", 1, "`number` of exited containers kept for each container, for their logs")
	fs.IntVar(&v.MaxDead, "maximum-dead-containers", -1, "`number` of exited containers kept on the node; below 0: no limit")
	fs.DurationVar(&v.MinAge, "minimum-container-ttl-duration", 0, "least `time` for which an exited container is kept")
	f.addKubeletFlags(fs)
	v.ImageGC.addFlags(fs)
	v.LogRotation.addFlags(fs)
	v.ImageAccess.setDefaults()
	v.Tracing.addFlags(fs)
	v.Node.addFlags(fs)
	v.Host.addFlags(fs)
	v.Cluster.addFlags(fs, &f.texts)
	fs.StringVar(&v.Kubeconfig, "kubeconfig", "", "kubeconfig `file` of the API server of this node's cluster; default: none")
	fs.Var(cliflag.NewMapStringBool(&f.featureGates), "feature-gates",
		"`gates`, as Name=true or Name=false, by which features of the kubelet are switched on or off")
	fs.Float32Var(&v.EventQPS, "event-qps", 50, "`number` of events sent to the API server per second, on average; 0: no limit")
	fs.IntVar(&v.EventBurst, "event-burst", 100, "`number` of events sent at once, within --event-qps")
}
