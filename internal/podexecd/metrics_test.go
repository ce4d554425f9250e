package podexecd

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/metrictest"
)

// The metrics that never change describe the node, the build and the feature gates as they are set.
func TestDescribe(t *testing.T) {
	opts, err := parse([]string{"--root-dir=" + t.TempDir(), "--hostname-override=n1", "--feature-gates=MemoryQoS=false,ReduceDefaultCrashLoopBackOffDecay=true"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	describe(opts, registry)
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_node_name{node=n1}": 1, "kubernetes_build_info{git_version=" + kubeletconfig.Version + "}": 1,
		"kubernetes_feature_enabled{name=MemoryQoS,stage=BETA}": 0, "kubernetes_feature_enabled{name=ReduceDefaultCrashLoopBackOffDecay,stage=ALPHA}": 1,
	})
	if got := metrictest.Value(t, registry, "kubelet_cgroup_version"); got != 1 && got != 2 {
		t.Errorf("cgroup version %v", got)
	}
	if up := uptime(); up < time.Second {
		t.Errorf("the machine has run for %v", up)
	}
}

// A page whose feature gate is off isn't configured.
func TestPagesByGates(t *testing.T) {
	for gates, want := range map[string]bool{"": true, "--feature-gates=ComponentFlagz=false,ComponentStatusz=false": false} {
		args := []string{"--root-dir=" + t.TempDir(), "--hostname-override=n1"}
		if gates != "" {
			args = append(args, gates)
		}
		opts, err := parse(args, nil)
		if err != nil {
			t.Fatal(err)
		}
		pages := (&node{opts: opts}).pages()
		if (pages.Flags != nil) != want || (pages.Version != "") != want {
			t.Errorf("with %q the pages are %+v", gates, pages)
		}
	}
}
