package migration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/kubeletconfig"
)

// Config says where the node's parts are.
type Config struct {
	// HostnameOverride is the node's name. Empty: the host's.
	HostnameOverride string
	// Kubelet is the kubelet's configuration. It is an error if it can't be read and is Given.
	Kubelet kubeletconfig.Paths
	// RuntimeEndpoint is unix:///path of the container runtime's socket, LogsDir the kubelet's --pod-logs-dir, and Manifests the path
	// of the static pods' manifests. Empty: as in the kubelet's configuration, or else the defaults; there is none for Manifests.
	RuntimeEndpoint, LogsDir, Manifests string
	// RootDir is the kubelet's --root-dir. Empty: DefaultRootDir.
	RootDir string
	// Pods has the pods of the node, and perhaps of others, as `kubectl get pods -A -o json` prints them. Nil: the API server is
	// asked.
	Pods []byte
	// Kubeconfig is the path of the node's kubeconfig. Empty: there is no API server.
	Kubeconfig string
	// KubeconfigGiven is set if the user has named the kubeconfig: then it is an error if the API server can't be asked.
	KubeconfigGiven bool
	// Patience bounds the reading of each part. Zero: no bound.
	Patience time.Duration
}

// Report is what happens to the node's pods.
type Report struct {
	Node string `json:"node"`
	// Pods are the plans, by namespace, name and UID.
	Pods []adoption.Pod `json:"pods"`
	// PodsFrom and ManifestsFrom name where the node's API pods and its static pods were read. Empty: nowhere.
	PodsFrom      string `json:"podsFrom"`
	ManifestsFrom string `json:"manifestsFrom"`
	// Notes are lines on what couldn't be read, or can't be used.
	Notes []string `json:"notes"`
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Examine reads the node and returns the plan.
func Examine(ctx context.Context, config Config) (*Report, error) {
	report := &Report{Notes: []string{}}
	cfg, err := settle(config, report)
	if err != nil {
		return nil, err
	}
	agent, err := daemon.KnownID(cfg.RootDir, "agent-id")
	if err != nil {
		return nil, err
	}
	rule := adoption.Rule{Agent: agent, Directories: adoption.Directories{
		Pods: filepath.Join(cfg.RootDir, "pods"), Logs: cfg.LogsDir, IsDirectory: isDirectory,
	}}
	// The runtime comes first: the sources then have each pod that started before.
	node, err := patiently(ctx, cfg, report, func(ctx context.Context, cfg settled, _ *Report) (running, error) {
		return readRuntime(ctx, cfg.RuntimeEndpoint, rule)
	})
	if err != nil {
		return nil, err
	}
	in := adoption.Input{}
	if in.API, err = patiently(ctx, cfg, report, readPods); err != nil {
		return nil, err
	}
	if in.Static, err = patiently(ctx, cfg, report, readManifests); err != nil {
		return nil, err
	}
	in.Pods = node.pods
	report.Pods = append(adoption.Plan(in), node.ignored...)
	adoption.Sort(report.Pods)
	return report, nil
}

// patiently calls read with the time limit.
func patiently[T any](ctx context.Context, cfg settled, r *Report, read func(context.Context, settled, *Report) (T, error)) (T, error) {
	if cfg.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.Patience)
		defer cancel()
	}
	return read(ctx, cfg, r)
}

func isDirectory(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// pointers returns pointers to the pods of the node.
func pointers(pods []v1.Pod, node string) []*v1.Pod {
	var out []*v1.Pod
	for i := range pods {
		if pods[i].Spec.NodeName == node {
			out = append(out, &pods[i])
		}
	}
	return out
}
