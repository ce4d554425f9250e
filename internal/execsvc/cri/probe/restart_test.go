package probe

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func TestRestartTakesNothingBack(t *testing.T) {
	yesPtr := true
	for name, tc := range map[string]struct {
		status v1.ContainerStatus
		want   observed.Probed
	}{
		"started and ready": {
			v1.ContainerStatus{ContainerID: "containerd://c1", Started: &yesPtr, Ready: true},
			observed.Probed{Startup: observed.Success, Readiness: observed.Success},
		},
		"started only": {
			v1.ContainerStatus{ContainerID: "containerd://c1", Started: &yesPtr},
			observed.Probed{Startup: observed.Success, Readiness: observed.Failure},
		},
		"another container": {
			v1.ContainerStatus{ContainerID: "containerd://c0", Started: &yesPtr, Ready: true},
			observed.Probed{Startup: observed.Undecided, Readiness: observed.Failure},
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, Config{}, func(b *bench) {
				b.node.run("uid", "main=c1")
				pod := podOf("uid", every("start", 1), every("ready", 1), nil)
				b.Set(pod, &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{tc.status}})
				if got := b.verdicts("c1"); got != tc.want {
					t.Errorf("got %+v, want %+v", got, tc.want)
				}
			})
		})
	}
}

func TestReadyContainerFromBeforeARestartHasItsPeriod(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		b.node.ran("uid", time.Now().Add(-time.Hour), "main=c1")
		b.node.answer("c1", "ready", no)
		b.Set(podOf("uid", nil, every("ready", 10), nil), &v1.PodStatus{
			ContainerStatuses: []v1.ContainerStatus{{ContainerID: "containerd://c1", Ready: true}},
		})
		pass(20 * s)
		if got := b.node.asked("c1", "ready"); len(got) != 2 || got[1]-got[0] != 10*s {
			t.Errorf("asked at %v", got)
		}
		if got := b.verdicts("c1"); got.Readiness != observed.Success {
			t.Errorf("below the threshold: %+v", got)
		}
	})
}

func TestContainersFromBeforeARestartAreSpreadOverAPeriod(t *testing.T) {
	simulate(t, Config{}, func(b *bench) {
		for _, uid := range uids(200) {
			b.node.ran(uid, time.Now().Add(-time.Hour), "main="+string(uid))
			b.node.answer(string(uid), "live", yes)
			b.Set(podOf(uid, nil, nil, every("live", 10)), nil)
		}
		pass(10 * s)
		tenth := map[int]int{}
		for _, uid := range uids(200) {
			first := b.node.asked(string(uid), "live")[0]
			tenth[int(first/s)]++
		}
		if len(tenth) != 10 {
			t.Errorf("first probes by second: %v", tenth)
		}
	})
}
