package cgroup

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// BenchmarkPod measures the cost of a pod's cgroup: Ensure, SetPod without a change, and Remove.
func BenchmarkPod(b *testing.B) {
	for _, p := range []*v1.Pod{podOf("best-effort", container(nil, nil)), podOf("guaranteed", same("cpu", "500m", "memory", "64Mi"))} {
		b.Run(string(p.UID), func(b *testing.B) {
			m := newManager(b, Config{Root: newRoot(b)})
			steps := []struct {
				name string
				do   func() error
				took time.Duration
			}{
				{name: "ensure", do: func() error { return m.Ensure(p) }},
				{name: "settle", do: func() error { return m.SetPod(p) }},
				{name: "remove", do: func() error { return m.Remove(b.Context(), p.UID) }},
			}
			for b.Loop() {
				for i := range steps {
					began := time.Now()
					if err := steps[i].do(); err != nil {
						b.Fatal(err)
					}
					steps[i].took += time.Since(began)
				}
			}
			for _, s := range steps {
				b.ReportMetric(float64(s.took.Microseconds())/float64(b.N), "µs/"+s.name)
			}
		})
	}
}
