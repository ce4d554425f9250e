package probe

import (
	"testing"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// A probe that changes in the pod's spec runs, and is judged, by its new spec.
func TestChangedProbeIsTheNewOne(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "ready", yes)
		b.node.answer("c1", "now", no)
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, every("ready", 10), nil), nil)
		pass(0)
		b.Set(podOf("uid", nil, every("now", 10, thresholds(1, 1)), nil), nil)
		b.node.asked("c1", "ready")
		pass(10 * s)
		if got := b.node.asked("c1", "ready"); len(got) > 0 {
			t.Errorf("the former probe is asked at %v", got)
		}
		if got := b.verdicts("c1").Readiness; got != observed.Failure {
			t.Errorf("after one failure, which is enough now, it is %v", got)
		}
	})
}
