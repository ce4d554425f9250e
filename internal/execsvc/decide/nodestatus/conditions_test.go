package nodestatus

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestReady(t *testing.T) {
	const (
		posting = "kubelet is posting ready status"
		warned  = posting + ". WARNING: CPU hardcapping unsupported"
	)
	for name, c := range map[string]struct {
		with func(*Facts)
		want string
	}{
		"well":               {func(*Facts) {}, ""},
		"silent for 29 s":    {func(f *Facts) { f.Runtime.Answered = t0.Add(-29 * time.Second) }, ""},
		"silent for 30 s":    {func(f *Facts) { f.Runtime.Answered = t0.Add(-30 * time.Second) }, "container runtime is down"},
		"hasn't answered":    {func(f *Facts) { f.Runtime = Runtime{} }, "[container runtime status check may not have completed yet, network state unknown]"},
		"pleg":               {func(f *Facts) { f.Runtime.PLEG = errors.New("was last seen 4m ago") }, "PLEG is not healthy: was last seen 4m ago"},
		"no nil is a reason": {func(f *Facts) { f.NotReady = []error{nil} }, ""},
		"shuts down":         {func(f *Facts) { f.NotReady = []error{errors.New("node is shutting down")} }, "node is shutting down"},
		"network": {
			func(f *Facts) {
				f.Runtime.Network = &runtimeapi.RuntimeCondition{Type: "NetworkReady", Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"}
			},
			"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized",
		},
		"network untold": {
			func(f *Facts) { f.Runtime.Network = nil }, "container runtime network not ready: NetworkReady=false reason: message:",
		},
		"runtime": {
			func(f *Facts) {
				f.Runtime.Ready = &runtimeapi.RuntimeCondition{Type: "RuntimeReady", Reason: "Starting", Message: "soon"}
			},
			"container runtime not ready: RuntimeReady=false reason:Starting message:soon",
		},
		"capacity": {
			func(f *Facts) { f.Info.Capacity = amounts("memory", "1Gi") }, "missing node capacity for resources: cpu, pods, ephemeral-storage",
		},
		"ephemeral storage": {
			func(f *Facts) { delete(f.Info.Capacity, v1.ResourceEphemeralStorage) }, "missing node capacity for resources: ephemeral-storage",
		},
		"ephemeral storage that isn't counted": {
			func(f *Facts) { delete(f.Info.Capacity, v1.ResourceEphemeralStorage); f.LocalStorage = false }, "",
		},
		"ready without quotas of CPU time": {func(f *Facts) { f.Info.NoCPUQuota = true }, warned},
		"not ready, without quotas": {
			func(f *Facts) { f.Info.NoCPUQuota, f.NotReady = true, []error{errors.New("node is shutting down")} },
			"node is shutting down. WARNING: CPU hardcapping unsupported",
		},
		"two reasons": {
			func(f *Facts) {
				f.Runtime.Answered = t0.Add(-time.Minute)
				f.Runtime.PLEG = errors.New("lost")
			},
			"[container runtime is down, PLEG is not healthy: lost]",
		},
	} {
		f := good()
		c.with(&f)
		s := Of(f, v1.NodeStatus{}, t0)
		got := s.Conditions[len(s.Conditions)-1]
		want := v1.NodeCondition{Type: "Ready", Status: "False", Reason: "KubeletNotReady", Message: c.want}
		if c.want == "" {
			want.Message = posting
		}
		if strings.HasPrefix(want.Message, posting) {
			want.Status, want.Reason = "True", "KubeletReady"
		}
		got.LastHeartbeatTime, got.LastTransitionTime = metav1.Time{}, metav1.Time{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPressure(t *testing.T) {
	f := good()
	f.Pressure = Pressure{Memory: true, Disk: true, PID: true}
	for i, want := range []struct{ reason, message string }{
		{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
		{"KubeletHasDiskPressure", "kubelet has disk pressure"},
		{"KubeletHasInsufficientPID", "kubelet has insufficient PID available"},
	} {
		got := Of(f, v1.NodeStatus{}, t0).Conditions[i]
		if got.Status != v1.ConditionTrue || got.Reason != want.reason || got.Message != want.message {
			t.Errorf("%+v; want %+v", got, want)
		}
	}
}

// Times and order of conditions: the heartbeat is always now, a new status is a transition, and other components'
// conditions stay.
func TestConditionsOverTime(t *testing.T) {
	before := Of(good(), v1.NodeStatus{}, t0)
	foreign := v1.NodeCondition{Type: "NetworkUnavailable", Status: "False", Reason: "RouteCreated", LastHeartbeatTime: metav1.NewTime(t0)}
	before.Conditions = append([]v1.NodeCondition{foreign}, before.Conditions...)
	// The cluster has marked the node as dead.
	before.Conditions[1].Status = v1.ConditionUnknown
	later := t0.Add(time.Minute)
	f := good()
	f.Runtime.Answered = later
	f.Pressure.Disk = true
	got := Of(f, before, later)
	moved := map[v1.NodeConditionType]bool{}
	for i, c := range got.Conditions {
		if c.Type != before.Conditions[i].Type {
			t.Errorf("%s is in the place of %s", c.Type, before.Conditions[i].Type)
		}
		if i > 0 && !c.LastHeartbeatTime.Time.Equal(later) {
			t.Errorf("the heartbeat of %s is of %v", c.Type, c.LastHeartbeatTime)
		}
		moved[c.Type] = c.LastTransitionTime.Time.Equal(later)
	}
	if diff := cmp.Diff(foreign, got.Conditions[0]); diff != "" {
		t.Errorf("another component's condition (-want +got):\n%s", diff)
	}
	want := map[v1.NodeConditionType]bool{
		"NetworkUnavailable": false, "MemoryPressure": true, "DiskPressure": true, "PIDPressure": false, "Ready": false,
	}
	if diff := cmp.Diff(want, moved); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	if before.Conditions[1].Status != v1.ConditionUnknown {
		t.Error("the status before was changed")
	}
}
