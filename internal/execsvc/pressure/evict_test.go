package pressure

import (
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Nobody is evicted of whom it isn't known what he uses: not all of them while the runtime doesn't answer, nor one that has only come.
func TestUsageUnknown(t *testing.T) {
	inWorld(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, w *world) {
		w.cfg.Gone = nil
		w.broken, w.pods = true, []*v1.Pod{podOf("high", 9, "0"), podOf("low", 1, "0")}
		w.memory(1)
		w.run()
		w.want("short", "changed", "Attempting to reclaim memory")
		pass(10 * period)
		w.want("then")
		w.set(func() { w.broken = false })
		pass(period)
		w.want("the runtime is back, and knows nothing")
		if w.told("isn't all known") != 1 {
			t.Errorf("log:\n%s", w.log.String())
		}
		w.set(func() { w.uses("high", 10, 0) })
		pass(period)
		w.want("of one it is known", "evict high within 1")
		pass(period)
		w.want("of the other it still isn't")
	})
}

// A pod that was evicted has all the time that it was given before another one goes for the same.
func TestAwaitsGrace(t *testing.T) {
	s := Settings{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "200Mi"}, SoftGrace: map[string]string{"memory.available": "30s"},
	}
	inWorld(t, s, func(t *testing.T, w *world) {
		w.cfg.MaxGrace = 300
		for _, uid := range []types.UID{"a", "b"} {
			pod := podOf(uid, 0, "1Mi")
			pod.Spec.TerminationGracePeriodSeconds = new(int64(600))
			w.pods = append(w.pods, pod)
			w.uses(uid, 10, 0)
		}
		w.memory(199)
		w.run()
		pass(30 * time.Second)
		w.want("after 30 s", "changed", "Attempting to reclaim memory", "evict a within 300")
		pass(300 * time.Second)
		w.want("while it ends")
		w.set(func() { w.gone["a"] = true })
		pass(endingPeriod)
		w.want("it is gone", "evict b within 300")
	})
}

// A directory is read no further than its files are counted: it may have more than there is memory for.
func TestCountFilesInALargeDirectory(t *testing.T) {
	const all = 4000
	dir := t.TempDir()
	for i := range all {
		write(t, dir, map[string]string{strconv.Itoa(i): ""})
	}
	if left := countFiles(t.Context(), dir, 2*all); left != 2*all-all-1 {
		t.Errorf("%d were counted", 2*all-left)
	}
	if n := testing.AllocsPerRun(1, func() { countFiles(t.Context(), dir, 2) }); n > all/2 {
		t.Errorf("%v allocations for two files", n)
	}
}
