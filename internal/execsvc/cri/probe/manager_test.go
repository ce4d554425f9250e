package probe

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

const (
	s  = time.Second
	ms = time.Millisecond
)

func TestInitialDelayIsExactAndThenThePeriodCounts(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "live", yes)
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, nil, every("live", 10, delay(3))), nil)
		pass(25 * s)
		if diff := cmp.Diff([]time.Duration{3 * s, 13 * s, 23 * s}, b.node.asked("c1", "live")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNewContainerIsProbedAtOnceAndStartsOver(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "ready", yes)
		b.Set(podOf("uid", nil, every("ready", 10), nil), nil)
		pass(500 * ms) // nothing runs yet
		if got := b.Probes("uid"); len(got) != 0 {
			t.Errorf("verdicts without a container: %v", got)
		}
		b.node.run("uid", "main=c1")
		if got := b.verdicts("c1"); got != (observed.Probed{Readiness: observed.Failure}) {
			t.Errorf("new container: %+v", got)
		}
		pass(0)
		if got := b.verdicts("c1"); got != (observed.Probed{Readiness: observed.Success}) {
			t.Errorf("asked container: %+v", got)
		}
		b.node.exit("uid")
		if got := b.Probes("uid"); len(got) != 0 {
			t.Errorf("verdicts of a dead container: %v", got)
		}
		b.node.answer("c2", "ready", no)
		b.node.run("uid", "main=c2")
		if got := b.verdicts("c2"); got != (observed.Probed{Readiness: observed.Failure}) {
			t.Errorf("restarted container: %+v", got)
		}
	})
}

func TestNewContainerIsSeenAtTheNextTick(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.Set(podOf("uid", nil, nil, every("live", 2)), nil)
		pass(1 * s)
		b.node.run("uid", "main=c1")
		pass(1 * s)
		if diff := cmp.Diff([]time.Duration{2 * s}, b.node.asked("c1", "live")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStartupHoldsTheOthersBack(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "start", no)
		b.node.answer("c1", "ready", yes)
		b.node.answer("c1", "live", yes)
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", every("start", 4, thresholds(1, 9)), every("ready", 10), every("live", 10, delay(30))), nil)
		pass(6 * s)
		if got := b.verdicts("c1"); got != (observed.Probed{Startup: observed.Undecided, Readiness: observed.Failure, Liveness: observed.Success}) {
			t.Errorf("before it has started: %+v", got)
		}
		b.node.answer("c1", "start", yes)
		pass(94 * s)
		for kind, want := range map[string][]time.Duration{
			"start": {0, 4 * s, 8 * s},                // no more once it has succeeded
			"ready": {8 * s, 18 * s, 28 * s, 38 * s},  // at once when it has
			"live":  {30 * s, 40 * s, 50 * s, 60 * s}, // its own delay counts too
		} {
			got := b.node.asked("c1", kind)
			if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" || kind == "start" && len(got) != len(want) {
				t.Errorf("%s: %v, want %v", kind, got, want)
			}
		}
	})
}

func TestFailedContainerIsLeftAloneUntilThereIsANewOne(t *testing.T) {
	for _, kind := range []string{"live", "start"} {
		t.Run(kind, func(t *testing.T) {
			simulate(t, Config{}, func(b *bench) {
				b.node.answer("c1", kind, no)
				b.node.answer("c2", kind, yes)
				b.node.run("uid", "main=c1")
				pod := podOf("uid", nil, nil, every("live", 5))
				if kind == "start" {
					pod = podOf("uid", every("start", 5), nil, nil)
				}
				b.Set(pod, nil)
				<-b.Ready()
				if uids := b.Take(); !slices.Equal(uids, []types.UID{"uid"}) {
					t.Errorf("Take: %v", uids)
				}
				if v := b.verdicts("c1"); v.Liveness != observed.Failure && v.Startup != observed.Failure {
					t.Errorf("verdict: %+v", v)
				}
				pass(60 * s)
				if diff := cmp.Diff([]time.Duration{0, 5 * s, 10 * s}, b.node.asked("c1", kind)); diff != "" {
					t.Error(diff)
				}
				b.node.run("uid", "main=c2")
				b.Probes("uid")
				pass(0)
				if got := b.node.asked("c2", kind); len(got) != 1 {
					t.Errorf("the new container was asked at %v", got)
				}
			})
		})
	}
}

func TestReadinessIsAskedAgainSoonAfterTheStart(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "ready", no)
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, every("ready", 10), nil), nil)
		pass(9 * s)
		if reported := b.reported(); reported != nil {
			t.Errorf("a container that has only begun isn't news: %q", reported)
		}
		pass(12 * s)
		want := []time.Duration{0, 200 * ms, 600 * ms, 1400 * ms, 3 * s, 6200 * ms, 10 * s, 20 * s}
		if diff := cmp.Diff(want, b.node.asked("c1", "ready")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"main Unhealthy: Readiness probe failed: no"}, b.reported()); diff != "" {
			t.Error(diff)
		}
		// A new container begins again; once it is ready it has its period.
		b.node.answer("c2", "ready", no)
		b.node.run("uid", "main=c2")
		b.Probes("uid")
		pass(500 * ms)
		b.node.answer("c2", "ready", yes)
		pass(100 * ms)
		b.node.answer("c2", "ready", no)
		pass(22 * s)
		want = []time.Duration{21 * s, 21200 * ms, 21600 * ms, 31600 * ms, 41600 * ms}
		if diff := cmp.Diff(want, b.node.asked("c2", "ready")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEndingPodIsOnlyAskedWhetherItIsReady(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		for kind, a := range map[string]answer{"start": yes, "ready": yes, "live": no} {
			b.node.answer("c1", kind, a)
		}
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", every("start", 1), every("ready", 1), every("live", 1, thresholds(1, 5))), nil)
		pass(2500 * ms)
		before := b.verdicts("c1")
		b.node.asked("c1", "ready")
		b.node.asked("c1", "live")
		b.Ending("uid")
		b.node.answer("c1", "ready", no)
		pass(10 * s)
		if got := b.node.asked("c1", "live"); got != nil {
			t.Errorf("liveness was asked at %v", got)
		}
		if got := b.node.asked("c1", "ready"); len(got) != 10 {
			t.Errorf("readiness was asked at %v", got)
		}
		before.Readiness = observed.Failure
		if got := b.verdicts("c1"); got != before {
			t.Errorf("verdicts: %+v, want %+v", got, before)
		}
	})
}

func TestRemovedPodIsDroppedAndItsProbesCancelled(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "live", hang)
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, nil, every("live", 1)), nil)
		pass(100 * ms)
		b.node.run("uid", "main=c2") // without a report
		b.Remove("uid")
		pass(0)
		if b.node.now != 0 {
			t.Error("its probe is still under way")
		}
		pass(10 * s)
		if got := b.Probes("uid"); got != nil {
			t.Errorf("verdicts: %v", got)
		}
		if got := b.node.asked("c1", "live"); len(got) != 1 {
			t.Errorf("it was asked at %v", got)
		}
		if got := b.node.asked("c2", "live"); got != nil {
			t.Errorf("its new container was asked at %v", got)
		}
		if reported := b.reported(); reported != nil {
			t.Errorf("events: %q", reported)
		}
		b.Remove("uid")
		b.Ending("uid") // of a pod that isn't there
	})
}

func TestSidecarsAreProbedAndOtherInitContainersAreNot(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		always := v1.ContainerRestartPolicyAlways
		pod := podOf("uid", nil, nil, nil)
		pod.Spec.InitContainers = []v1.Container{
			{Name: "sidecar", RestartPolicy: &always, StartupProbe: every("start", 1)},
			{Name: "init", StartupProbe: every("start", 1)},
		}
		b.node.run("uid", "main=c1", "sidecar=c2", "init=c3")
		b.Set(pod, nil)
		want := observed.Probes{"c2": {Startup: observed.Undecided}}
		if diff := cmp.Diff(want, b.Probes("uid")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestChangedProbesKeepWhatIsKnown(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.answer("c1", "ready", yes)
		b.node.answer("c1", "live", yes)
		b.node.run("uid", "main=c1")
		b.Set(podOf("uid", nil, every("ready", 10), nil), nil)
		pass(0)
		b.Set(podOf("uid", nil, every("ready", 2), every("live", 10)), nil)
		if got := b.verdicts("c1"); got != (observed.Probed{Readiness: observed.Success, Liveness: observed.Success}) {
			t.Errorf("after the change: %+v", got)
		}
		pass(1 * s)
		if got := b.node.asked("c1", "live"); len(got) != 1 {
			t.Errorf("the new probe was asked at %v", got)
		}
		b.Set(podOf("uid", nil, nil, nil), nil)
		if got := b.Probes("uid"); len(got) != 0 {
			t.Errorf("without probes: %v", got)
		}
	})
}

func TestTargetIsTheContainer(t *testing.T) {
	simulate(t, Config{HostIPs: func() []string { return []string{"192.0.2.1"} }}, func(b *bench) {
		pod := podOf("uid", nil, nil, every("live", 1))
		host := podOf("host", nil, nil, every("live", 1))
		host.Spec.HostNetwork = true
		b.node.run("uid", "main=c1")
		b.node.run("host", "main=c2")
		b.Set(pod, nil)
		b.Set(host, nil)
		pass(0)
		ports := pod.Spec.Containers[0].Ports
		want := map[string]handler.Target{
			"c1": {Pod: pod, Container: "main", ContainerID: "c1", Ports: ports, PodIP: "10.0.0.7"},
			"c2": {Pod: host, Container: "main", ContainerID: "c2", Ports: ports, PodIP: "192.0.2.1"},
		}
		got := map[string]handler.Target{}
		for _, a := range b.node.asks {
			got[a.id] = a.target
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// The runtime reports a container's start by the wall clock. If that is set back during the initial delay, the first
// probe isn't delayed by as much: its time is counted by the monotonic clock.
func TestInitialDelayHeedsNoClockThatIsSet(t *testing.T) {
	n := newNode()
	m := New(Config{Handlers: n, Observed: n.observed}) // It doesn't run: a simulated clock has no such reading.
	n.ran("uid", time.Now().Round(0).Add(-s), "main=c1")
	m.Set(podOf("uid", nil, nil, every("live", 1, delay(10))), nil)
	for p := range m.pods["uid"].probes() {
		if at := p.notBefore; at.String() == at.Round(0).String() || time.Until(at) > 9*s {
			t.Errorf("first asked at %v", at)
		}
	}
}
