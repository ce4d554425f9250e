package migration

import (
	"cmp"
	"fmt"
	"path/filepath"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// The defaults, which are the kubelet's.
const (
	DefaultRootDir         = kubeletdir.Default
	DefaultLogsDir         = "/var/log/pods"
	DefaultRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
)

// settled is a Config whose empty fields are filled in, with absolute paths.
type settled struct {
	Config
	node string
	// manifestsGiven is set if the user has named the path of the manifests.
	manifestsGiven bool
}

// settle reads the kubelet's configuration, and fills in what cfg leaves open.
func settle(cfg Config, r *Report) (settled, error) {
	node, err := (&daemon.Flags{HostnameOverride: cfg.HostnameOverride}).NodeName()
	if err != nil {
		return settled{}, err
	}
	r.Node = node
	kubelet, err := readKubelet(cfg.Kubelet)
	switch {
	case err != nil && cfg.Kubelet.Given:
		return settled{}, fmt.Errorf("the kubelet's configuration: %w", err)
	case err != nil:
		r.note("the kubelet's configuration wasn't read, so the defaults count: %v", err)
		kubelet = &kubeletconfig.Config{}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	out := settled{Config: cfg, node: node, manifestsGiven: cfg.Manifests != ""}
	out.RuntimeEndpoint = cmp.Or(cfg.RuntimeEndpoint, kubelet.ContainerRuntimeEndpoint, DefaultRuntimeEndpoint)
	out.RootDir = cmp.Or(cfg.RootDir, DefaultRootDir)
	out.LogsDir = cmp.Or(cfg.LogsDir, kubelet.PodLogsDir, DefaultLogsDir)
	out.Manifests = cmp.Or(cfg.Manifests, kubelet.StaticPodPath)
	for _, path := range []*string{&out.RootDir, &out.LogsDir, &out.Manifests} {
		if *path == "" {
			continue
		}
		// The UIDs of static pods depend on the absolute path.
		if *path, err = filepath.Abs(*path); err != nil {
			return settled{}, err
		}
	}
	return out, nil
}

// readKubelet reads the kubelet's configuration.
func readKubelet(paths kubeletconfig.Paths) (*kubeletconfig.Config, error) {
	files, err := kubeletconfig.Load(paths)
	if err != nil {
		return nil, err
	}
	docs, err := kubeletconfig.Parse(files)
	if err != nil {
		return nil, err
	}
	return kubeletconfig.Merge(docs)
}
