package podexecd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/loop/shutdown"
)

func TestShutdownPeriods(t *testing.T) {
	for name, tc := range map[string]struct {
		settings execconfig.Shutdown
		want     []shutdown.Period
	}{
		"off": {},
		"in two groups": {
			execconfig.Shutdown{ShutdownGracePeriod: 30 * time.Second, ShutdownGracePeriodCriticalPods: 10 * time.Second},
			[]shutdown.Period{{Priority: 0, Time: 20 * time.Second}, {Priority: 2_000_000_000, Time: 10 * time.Second}},
		},
		"by priority": {
			execconfig.Shutdown{ShutdownGracePeriodByPodPriority: []kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority{{Priority: 7, ShutdownGracePeriodSeconds: 60}}},
			[]shutdown.Period{{Priority: 7, Time: time.Minute}},
		},
	} {
		if diff := cmp.Diff(tc.want, shutdownPeriods(&tc.settings)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Without a shutdown, pods are refused for the node's pressure alone.
func TestRefusal(t *testing.T) {
	n := &node{shutdown: shutdown.New(shutdown.Config{})}
	pressed := admit.Rejection{Reason: "Evicted"}
	why, refused := n.refusal(func(*v1.Pod) (admit.Rejection, bool) { return pressed, true })(&v1.Pod{})
	if !refused || why != pressed {
		t.Errorf("%+v, %v; want the pressure", why, refused)
	}
}
