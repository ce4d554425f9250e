package execconfig

import (
	"time"

	"github.com/spf13/pflag"
)

// Flags are podexecd's flags that a KubeletConfiguration may say too, and others about how pods run.
type Flags struct {
	values Settings
	texts  clusterTexts
	set    *pflag.FlagSet
}

// AddFlags adds them to fs, with their defaults.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	f.set = fs
	v := &f.values
	fs.StringVar(&v.RuntimeEndpoint, "container-runtime-endpoint", "unix:///run/containerd/containerd.sock",
		"the container runtime's CRI `socket`, unix:///path")
	fs.StringVar(&v.ImageEndpoint, "image-service-endpoint", "", "the CRI `socket` for images; default: --container-runtime-endpoint")
	fs.StringVar(&v.PodLogsDir, "pod-logs-dir", "/var/log/pods",
		"`directory` of the pods' logs; links to them are made beside it, in containers")
	fs.DurationVar(&v.RequestTimeout, "runtime-request-timeout", 2*time.Minute, "`time` that a call to the runtime may take, but for pulls and stops")
	fs.DurationVar(&v.SyncFrequency, "sync-frequency", time.Minute, "`time` between two looks at a pod to which nothing happens")
	fs.BoolVar(&v.Pulls.Serial, "serialize-image-pulls", false, "pull images one at a time")
	fs.IntVar(&v.Pulls.MaxParallel, "max-parallel-image-pulls", 0, "`number` of images that are pulled at a time; 0: any")
	fs.Float32Var(&v.Pulls.QPS, "registry-qps", 5, "`number` of pulls that may begin each second, on average; 0: any")
	fs.IntVar(&v.Pulls.Burst, "registry-burst", 10, "`number` of pulls that may begin at once, within --registry-qps")
	fs.DurationVar(&v.RestartBackoff.Base, "crash-loop-backoff-base", 10*time.Second, "`pause` before a crashing container's second restart; it doubles")
	fs.DurationVar(&v.RestartBackoff.Max, "crash-loop-backoff-max", 5*time.Minute, "longest `pause` before a restart")
	fs.DurationVar(&v.PullBackoff.Base, "image-pull-backoff-base", 10*time.Second, "`pause` after a failed pull; it doubles")
	fs.DurationVar(&v.PullBackoff.Max, "image-pull-backoff-max", 5*time.Minute, "longest `pause` after a failed pull")
	fs.StringVar(&v.CredentialProviderConfig, "image-credential-provider-config", "",
		"`file` or directory of a CredentialProviderConfig: which plugins know the registries' passwords")
	fs.StringVar(&v.CredentialProviderBinDir, "image-credential-provider-bin-dir", "", "`directory` of those plugins")
	fs.IntVar(&v.MaxPerContainer, "maximum-dead-containers-per-container", 1, "`number` of ended containers that are kept of each, for their logs")
	fs.IntVar(&v.MaxDead, "maximum-dead-containers", -1, "`number` of ended containers that are kept on the node; below 0: any")
	fs.DurationVar(&v.MinAge, "minimum-container-ttl-duration", 0, "`time` for which an ended container is kept at least")
	v.ImageGC.addFlags(fs)
	v.Node.addFlags(fs)
	v.Cluster.addFlags(fs, &f.texts)
	fs.StringVar(&v.Kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server, of whose cluster this is a node; default: none")
	fs.Float32Var(&v.EventQPS, "event-qps", 50, "`number` of events that go to the API server each second, on average; 0: any")
	fs.IntVar(&v.EventBurst, "event-burst", 100, "`number` of events that may go at once, within --event-qps")
}
