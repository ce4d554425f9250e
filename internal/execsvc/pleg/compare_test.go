package pleg

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/execsvc/runtime"
)

// podWith is a pod with one container c, in that state, and no sandbox.
func podWith(state runtime.State) *runtime.Pod {
	return &runtime.Pod{UID: "u", Containers: []runtime.Container{{ID: "c", State: state}}}
}

// sandboxed is a pod with one sandbox s and no containers.
func sandboxed(ready bool) *runtime.Pod {
	return &runtime.Pod{UID: "u", Sandboxes: []runtime.Sandbox{{ID: "s", Ready: ready}}}
}

func TestCompare(t *testing.T) {
	event := func(typ EventType, id string) Event { return Event{UID: "u", Type: typ, ID: id} }
	both := &runtime.Pod{
		UID:        "u",
		Sandboxes:  []runtime.Sandbox{{ID: "s", Ready: true}},
		Containers: []runtime.Container{{ID: "c", State: runtime.Running}, {ID: "d", State: runtime.Exited}},
	}
	tests := []struct {
		name     string
		old, now *runtime.Pod
		want     []Event
	}{
		{"nothing, ever", nil, nil, nil},
		{"new, created", nil, podWith(runtime.Created), []Event{event(ContainerChanged, "c")}},
		{"new, running", nil, podWith(runtime.Running), []Event{event(ContainerStarted, "c")}},
		{"new, exited", nil, podWith(runtime.Exited), []Event{event(ContainerDied, "c")}},
		{"new, unknown", nil, podWith(runtime.Unknown), []Event{event(ContainerChanged, "c")}},
		{"created as before", podWith(runtime.Created), podWith(runtime.Created), nil},
		{"running as before", podWith(runtime.Running), podWith(runtime.Running), nil},
		{"unknown as before", podWith(runtime.Unknown), podWith(runtime.Unknown), nil},
		{"started", podWith(runtime.Created), podWith(runtime.Running), []Event{event(ContainerStarted, "c")}},
		{"died", podWith(runtime.Running), podWith(runtime.Exited), []Event{event(ContainerDied, "c")}},
		{"lost", podWith(runtime.Running), podWith(runtime.Unknown), []Event{event(ContainerChanged, "c")}},
		{"found again", podWith(runtime.Unknown), podWith(runtime.Running), []Event{event(ContainerStarted, "c")}},
		{"removed when it had ended", podWith(runtime.Exited), nil, []Event{event(ContainerRemoved, "c")}},
		{"removed while it ran", podWith(runtime.Running), nil, []Event{event(ContainerDied, "c"), event(ContainerRemoved, "c")}},
		{"removed, and the pod is there", podWith(runtime.Exited), sandboxed(true),
			[]Event{event(ContainerStarted, "s"), event(ContainerRemoved, "c")}},
		{"sandbox ready", nil, sandboxed(true), []Event{event(ContainerStarted, "s")}},
		{"sandbox as before", sandboxed(true), sandboxed(true), nil},
		{"sandbox stopped", sandboxed(true), sandboxed(false), []Event{event(ContainerDied, "s")}},
		{"sandbox removed when stopped", sandboxed(false), nil, []Event{event(ContainerRemoved, "s")}},
		{"a whole pod", nil, both,
			[]Event{event(ContainerStarted, "c"), event(ContainerDied, "d"), event(ContainerStarted, "s")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Compare(tt.old, tt.now)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A container that was replaced between two readings is told of whole, however fast that went.
func TestCompareReplaced(t *testing.T) {
	old := podWith(runtime.Running)
	now := &runtime.Pod{UID: "u", Containers: []runtime.Container{{ID: "c2", State: runtime.Running}}}
	want := []Event{
		{UID: "u", Type: ContainerStarted, ID: "c2"}, {UID: "u", Type: ContainerDied, ID: "c"}, {UID: "u", Type: ContainerRemoved, ID: "c"},
	}
	if diff := cmp.Diff(want, Compare(old, now)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
