package image

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/metrictest"
)

// A pull is measured from the pod's request, by the image's size. One that fails isn't.
func TestPullDuration(t *testing.T) {
	registry := prometheus.NewRegistry()
	pulled := make(chan time.Duration, 10)
	s := newSim(t, Config{Metrics: registry, Pulled: func(uid types.UID, asked, end time.Time) {
		if uid == "1" {
			pulled <- end.Sub(asked)
		}
	}})
	s.SetFault(func(_ context.Context, method string) error {
		if method == "PullImage" {
			s.clock.Step(7 * time.Second)
		}
		return nil
	})
	p, absent := pod("1", "IfNotPresent sim/app:1"), pod("2", "IfNotPresent missing/app:1")
	s.want(p, 0, "pulling")
	s.wantDone(p)
	s.want(absent, 0, "pulling")
	s.wantDone(absent)
	if took := receive(t, pulled); took != 7*time.Second {
		t.Errorf("the pod waited %v; want 7 s", took)
	}
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_image_pull_duration_seconds": 1, "kubelet_image_pull_duration_seconds{image_size_in_bytes=0-10MB}": 1,
	})
	if took := metrictest.Sum(t, registry, "kubelet_image_pull_duration_seconds"); took != 7 {
		t.Errorf("the pull took %v s; want 7", took)
	}
}
