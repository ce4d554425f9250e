package probe

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func uids(n int) []types.UID {
	var out []types.UID
	for i := range n {
		out = append(out, types.UID(fmt.Sprintf("u%d", i)))
	}
	return out
}

func TestEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		answer answer
		want   []string
	}{
		"success": {yes, nil},
		"failure": {no, []string{"main Unhealthy: Liveness probe failed: no"}},
		"warning": {answer{outcome: handler.Warning, output: "elsewhere"}, []string{"main ProbeWarning: Liveness probe warning: elsewhere"}},
		"error":   {answer{err: errRuntime}, []string{"main Unhealthy: Liveness probe errored and resulted in unknown state: the runtime is away"}},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, Config{}, func(b *bench) {
				b.node.answer("c1", "live", tc.answer)
				b.node.run("uid", "main=c1")
				b.Set(podOf("uid", nil, nil, every("live", 1)), nil)
				pass(0)
				if diff := cmp.Diff(tc.want, b.reported()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestContainerThatCantBeAskedIsNotKilled(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "live", answer{err: errRuntime})
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, nil, every("live", 1, thresholds(1, 1))), nil)
		pass(500 * ms)
		if got := b.node.asked("c1", "live"); len(got) != attempts {
			t.Errorf("asked at %v", got)
		}
		if got := b.verdicts("c1"); got.Liveness != observed.Success {
			t.Errorf("verdict: %+v", got)
		}
	})
}

func TestContainerThatExitsWhileItIsAskedHasNotFailed(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "live", answer{outcome: handler.Failure, output: "refused", takes: 300 * ms})
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, nil, every("live", 1, thresholds(1, 1))), nil)
		pass(100 * ms)
		b.node.exit("uid")
		pass(5 * s)
		if reported, changed := b.reported(), b.Take(); reported != nil || len(changed) != 0 {
			t.Errorf("events %q, changed %v", reported, changed)
		}
	})
}

func TestAnswerOfAnOldContainerDoesNotCountForTheNewOne(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "live", hang)
		b.node.answer("c2", "live", yes)
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, nil, every("live", 1, thresholds(1, 1))), nil)
		pass(100 * ms)
		b.node.run("uid", "main=c2")
		b.Probes("uid") // breaks the old one off
		pass(0)
		if got := b.node.asked("c2", "live"); len(got) != 1 {
			t.Errorf("the new container was asked at %v", got)
		}
		if got, reported := b.verdicts("c2"), b.reported(); got.Liveness != observed.Success || reported != nil {
			t.Errorf("verdict %+v, events %q", got, reported)
		}
	})
}

func TestAnswerThatComesAfterAnUnseenRestartDoesNotCount(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "live", answer{outcome: handler.Failure, output: "refused", takes: 300 * ms})
		b.node.answer("c2", "live", yes)
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, nil, every("live", 1, thresholds(1, 1))), nil)
		pass(100 * ms)
		b.node.run("uid", "main=c2") // without a report
		pass(200 * ms)
		if got, reported := b.verdicts("c2"), b.reported(); got.Liveness != observed.Success || reported != nil {
			t.Errorf("verdict %+v, events %q", got, reported)
		}
		if got := b.node.asked("c2", "live"); len(got) != 1 {
			t.Errorf("the new container was asked at %v", got)
		}
	})
}

func TestPeriodIsFromBeginToBegin(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "live", answer{outcome: handler.Success, takes: 300 * ms})
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, nil, every("live", 1)), nil)
		pass(2500 * ms)
		if diff := cmp.Diff([]time.Duration{0, 1 * s, 2 * s}, b.node.asked("c1", "live")); diff != "" {
			t.Error(diff)
		}
		b.node.answer("c1", "live", answer{outcome: handler.Success, takes: 1500 * ms})
		pass(4 * s)
		if diff := cmp.Diff([]time.Duration{3 * s, 4500 * ms, 6 * s}, b.node.asked("c1", "live")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHangingProbesDelayOnlyThemselves(t *testing.T) {
	simulate(t, Config{Parallel: 4}, func(b *bench) {
		for i, uid := range uids(40) {
			a := yes
			if i < 20 {
				a = hang
			}
			b.node.answer(string(uid), "live", a)
			b.node.run(uid, "main="+string(uid))
			b.Set(podOf(uid, nil, nil, every("live", 1)), nil)
		}
		pass(10 * s) // five rounds of slots for those that hang
		for _, uid := range uids(40)[20:] {
			b.node.asked(string(uid), "live")
		}
		pass(10 * s)
		for _, uid := range uids(40)[20:] {
			if got := b.node.asked(string(uid), "live"); len(got) != 10 {
				t.Errorf("%s was asked at %v", uid, got)
			}
		}
		if b.node.now != 20 {
			t.Errorf("%d hang, want 20", b.node.now)
		}
	})
}

func TestFiveHundredProbesCostNoGoroutinesAndKeepTheBound(t *testing.T) {
	simulate(t, Config{Parallel: 8}, func(b *bench) {
		before := runtime.NumGoroutine()
		for _, uid := range uids(500) {
			b.node.answer(string(uid), "live", answer{outcome: handler.Success, takes: 10 * ms})
			b.node.run(uid, "main="+string(uid))
			b.Set(podOf(uid, nil, nil, every("live", 10)), nil)
		}
		pass(9 * s)
		// Go's own goroutines come and go.
		if now := runtime.NumGoroutine(); now > before+5 {
			t.Errorf("%d goroutines with 500 idle probes, %d without", now, before)
		}
		pass(90 * s)
		if b.node.most != 8 {
			t.Errorf("%d under way at once, want 8", b.node.most)
		}
		for _, uid := range uids(500) {
			if got := b.node.asked(string(uid), "live"); len(got) != 10 {
				t.Fatalf("%s was asked at %v", uid, got)
			}
		}
	})
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	// series are those of the registry, as their name, labels, count, and number of observations.
	series := func() []string {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range families {
			for _, m := range f.GetMetric() {
				line := f.GetName()
				for _, l := range m.GetLabel() {
					line += " " + l.GetName() + "=" + l.GetValue()
				}
				out = append(out, fmt.Sprint(line, " ", m.GetCounter().GetValue(), m.GetHistogram().GetSampleCount()))
			}
		}
		return out
	}
	simulate(t, Config{Metrics: registry}, func(b *bench) {
		for kind, a := range map[string]answer{"start": yes, "ready": no, "live": {err: errRuntime}} {
			b.node.answer("c1", kind, a)
		}
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", every("start", 60), every("ready", 60), every("live", 60)), nil)
		pass(0)
		want := []string{
			"prober_probe_duration_seconds container=main namespace=ns pod=pod-uid probe_type=Startup 0 1",
			"prober_probe_total container=main namespace=ns pod=pod-uid pod_uid=uid probe_type=Liveness result=unknown 1 0",
			"prober_probe_total container=main namespace=ns pod=pod-uid pod_uid=uid probe_type=Readiness result=failed 1 0",
			"prober_probe_total container=main namespace=ns pod=pod-uid pod_uid=uid probe_type=Startup result=successful 1 0",
		}
		if diff := cmp.Diff(want, series()); diff != "" {
			t.Error(diff)
		}
		b.Remove("uid")
		if got := series(); got != nil {
			t.Errorf("series of a pod that is gone: %q", got)
		}
	})
}

// prompt answers at once, and says so.
type prompt chan struct{}

func (p prompt) Probe(context.Context, handler.Target, *v1.Probe) (handler.Outcome, string, error) {
	p <- struct{}{}
	return handler.Success, "", nil
}

// BenchmarkProbe is what one probe costs that is answered at once, among few and among many.
func BenchmarkProbe(b *testing.B) {
	for _, n := range []int{1, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			clock := testingclock.NewFakeClock(time.Unix(0, 0))
			node, asked := newNode(), make(prompt, n)
			m := New(Config{Handlers: asked, Observed: node.observed, Clock: clock, Parallel: n})
			for _, uid := range uids(n) {
				node.ran(uid, clock.Now(), "main="+string(uid))
				m.Set(podOf(uid, nil, nil, every("live", 1)), nil)
			}
			b.ResetTimer()
			for range (b.N + n - 1) / n {
				m.runDue(b.Context())
				for range n {
					<-asked
				}
				m.underWay.Wait()
				clock.Step(time.Second)
			}
		})
	}
}
