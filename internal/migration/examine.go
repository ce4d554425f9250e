package migration

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"

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
	// Clock has the time with which the pods' deadlines are compared. Nil: the system's.
	Clock clock.PassiveClock
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
	r.Notes = append(r.Notes, cut(fmt.Sprintf(format, args...)))
}

// Examine reads the node and returns the plan.
func Examine(ctx context.Context, config Config) (*Report, error) {
	report, err := examine(ctx, config)
	return report, short(err)
}

func examine(ctx context.Context, config Config) (*Report, error) {
	report := &Report{Notes: []string{}}
	cfg, err := patiently(ctx, config.Patience, "the node's configuration", func(context.Context) (settled, error) { return settle(config, report) })
	if err != nil {
		return nil, err
	}
	// The runtime comes first: the sources then have each pod that started before.
	node, err := patiently(ctx, config.Patience, "the container runtime", func(ctx context.Context) (running, error) { return readRuntime(ctx, cfg) })
	if err != nil {
		return nil, err
	}
	in := adoption.Input{}
	in.API, err = patiently(ctx, config.Patience, "the node's pods", func(ctx context.Context) (adoption.Source, error) { return readPods(ctx, cfg, report) })
	if err != nil {
		return nil, err
	}
	in.Static, err = patiently(ctx, config.Patience, "the static pods' manifests", func(ctx context.Context) (adoption.Source, error) {
		return readManifests(ctx, cfg, report)
	})
	if err != nil {
		return nil, err
	}
	in.Pods, in.Now = node.pods, cfg.Clock.Now()
	report.Pods = append(adoption.Plan(in), node.ignored...)
	adoption.Sort(report.Pods)
	return report, nil
}

func isDirectory(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
