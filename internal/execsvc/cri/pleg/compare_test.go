package pleg

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// podWith returns a pod with one container c, in that state, and no sandbox.
func podWith(state observed.State) *observed.Pod {
	return &observed.Pod{UID: "u", Containers: []observed.Container{{ID: "c", State: state}}}
}

// sandboxed returns a pod with one sandbox s and no containers.
func sandboxed(ready bool) *observed.Pod {
	return &observed.Pod{UID: "u", Sandboxes: []observed.Sandbox{{ID: "s", Ready: ready}}}
}

func TestCompare(t *testing.T) {
	event := func(typ EventType, id string) Event { return Event{UID: "u", Type: typ, ID: id} }
	both := &observed.Pod{
		UID:        "u",
		Sandboxes:  []observed.Sandbox{{ID: "s", Ready: true}},
		Containers: []observed.Container{{ID: "c", State: observed.Running}, {ID: "d", State: observed.Exited}},
	}
	tests := []struct {
		name     string
		old, now *observed.Pod
		want     []Event
	}{
		{"nothing, ever", nil, nil, nil},
		{"new, created", nil, podWith(observed.Created), []Event{event(ContainerChanged, "c")}},
		{"new, running", nil, podWith(observed.Running), []Event{event(ContainerStarted, "c")}},
		{"new, exited", nil, podWith(observed.Exited), []Event{event(ContainerDied, "c")}},
		{"new, unknown", nil, podWith(observed.Unknown), []Event{event(ContainerChanged, "c")}},
		{"created as before", podWith(observed.Created), podWith(observed.Created), nil},
		{"running as before", podWith(observed.Running), podWith(observed.Running), nil},
		{"unknown as before", podWith(observed.Unknown), podWith(observed.Unknown), nil},
		{"started", podWith(observed.Created), podWith(observed.Running), []Event{event(ContainerStarted, "c")}},
		{"died", podWith(observed.Running), podWith(observed.Exited), []Event{event(ContainerDied, "c")}},
		{"lost", podWith(observed.Running), podWith(observed.Unknown), []Event{event(ContainerChanged, "c")}},
		{"found again", podWith(observed.Unknown), podWith(observed.Running), []Event{event(ContainerStarted, "c")}},
		{"removed when it had ended", podWith(observed.Exited), nil, []Event{event(ContainerRemoved, "c")}},
		{"removed while it ran", podWith(observed.Running), nil, []Event{event(ContainerDied, "c"), event(ContainerRemoved, "c")}},
		{"removed, and the pod is there", podWith(observed.Exited), sandboxed(true),
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

func TestShows(t *testing.T) {
	unknown := podWith(observed.Unknown)
	two := sandboxed(true)
	two.Containers = podWith(observed.Running).Containers
	tests := []struct {
		name              string
		reading, reported *observed.Pod
		want              bool
	}{
		{"anything may have happened", podWith(observed.Running), anything("u"), false},
		{"a pod that wasn't read", nil, podWith(observed.Created), false},
		{"a container that wasn't there, or has gone", sandboxed(true), podWith(observed.Running), false},
		{"created, and created", podWith(observed.Created), podWith(observed.Created), true},
		{"created, and now it runs", podWith(observed.Created), podWith(observed.Running), false},
		{"running, and late that it was created", podWith(observed.Running), podWith(observed.Created), true},
		{"running, and that it was started", podWith(observed.Running), podWith(observed.Running), true},
		{"running, and now it has ended", podWith(observed.Running), podWith(observed.Exited), false},
		{"ended, and late that it was started", podWith(observed.Exited), podWith(observed.Running), true},
		{"ended, and that it has", podWith(observed.Exited), podWith(observed.Exited), true},
		{"lost", podWith(observed.Running), unknown, false},
		{"lost as before", unknown, unknown, false},
		{"lost, and now it has ended", unknown, podWith(observed.Exited), false},
		{"lost, and found again", unknown, podWith(observed.Running), false},
		{"a sandbox as it was", sandboxed(true), sandboxed(true), true},
		{"a sandbox that has stopped", sandboxed(true), sandboxed(false), false},
		{"a sandbox that had stopped", sandboxed(false), sandboxed(true), true},
		{"some of what there is", two, podWith(observed.Running), true},
		{"more than there is", podWith(observed.Running), two, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := shows(tt.reading, tt.reported); got != tt.want {
				t.Errorf("shows: %t; want %t", got, tt.want)
			}
		})
	}
}

// A container that was replaced between two readings has all its events, however fast that went.
func TestCompareReplaced(t *testing.T) {
	old := podWith(observed.Running)
	now := &observed.Pod{UID: "u", Containers: []observed.Container{{ID: "c2", State: observed.Running}}}
	want := []Event{
		{UID: "u", Type: ContainerStarted, ID: "c2"}, {UID: "u", Type: ContainerDied, ID: "c"}, {UID: "u", Type: ContainerRemoved, ID: "c"},
	}
	if diff := cmp.Diff(want, Compare(old, now)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
