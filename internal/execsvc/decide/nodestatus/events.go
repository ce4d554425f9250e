package nodestatus

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Event is an event of the Node, with the kubelet's reason.
type Event struct{ Type, Reason, Message string }

// transitions are the events of conditions that become true or false, in the order in which they are recorded.
var transitions = []struct {
	condition v1.NodeConditionType
	yes, no   string
	// first is set if the first status of the condition is an event too.
	first bool
}{
	{v1.NodeMemoryPressure, "NodeHasInsufficientMemory", "NodeHasSufficientMemory", true},
	{v1.NodeDiskPressure, "NodeHasDiskPressure", "NodeHasNoDiskPressure", true},
	{v1.NodePIDPressure, "NodeHasInsufficientPID", "NodeHasSufficientPID", true},
	{v1.NodeReady, "NodeReady", "NodeNotReady", false},
}

// Events returns the events of a change of the status of the node with that name.
func Events(name string, before, after *v1.NodeStatus) []Event {
	var out []Event
	if was, is := before.NodeInfo.BootID, after.NodeInfo.BootID; was != "" && is != was {
		out = append(out, Event{v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", name, is)})
	}
	for _, t := range transitions {
		was, is := Condition(before, t.condition), Condition(after, t.condition)
		if was == is || !t.first && !has(before, t.condition) {
			continue
		}
		reason := t.no
		if is == v1.ConditionTrue {
			reason = t.yes
		}
		out = append(out, StatusEvent(name, reason))
	}
	return out
}

// StatusEvent returns the event that the node has entered a state.
func StatusEvent(name, reason string) Event {
	return Event{v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", name, reason)}
}

func has(s *v1.NodeStatus, name v1.NodeConditionType) bool {
	for _, c := range s.Conditions {
		if c.Type == name {
			return true
		}
	}
	return false
}
