package podexecd

import (
	"errors"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// The kubelet's messages at its start. Users search for them.
const (
	starting = "Starting kubelet."
	cgroupV1 = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please migrate to cgroup v2. " +
		"More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1"
	swappedTmpfs = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) " +
		"might be swapped to disk and should no longer be considered secure."
)

// checkCgroups returns an error if the settings forbid this machine's version of cgroups.
func checkCgroups(s *execconfig.Settings, v2 bool) error {
	if s.FailCgroupV1 && !v2 {
		return errors.New("failCgroupV1 (--fail-cgroupv1) is true, and this machine has cgroup v1: boot it with cgroup v2, or set the field to false")
	}
	return nil
}

// startEvents returns the events of the Node at a start: that podexecd starts, and what is unsafe about the machine.
// noSwap reports whether the kernel can keep a tmpfs out of the swap.
func startEvents(info *nodeinfo.Info, noSwap func() bool) []nodestatus.Event {
	out := []nodestatus.Event{{Type: events.Normal, Reason: events.StartingKubelet, Message: starting}}
	if !info.CgroupV2 {
		out = append(out, nodestatus.Event{Type: events.Warning, Reason: events.CgroupV1, Message: cgroupV1})
	}
	if info.SwapCapacity() > 0 && !noSwap() {
		out = append(out, nodestatus.Event{Type: events.Warning, Reason: events.PossibleMemoryBackedVolumesOnDisk, Message: swappedTmpfs})
	}
	return out
}

// announce records the events of a start, and logs the warnings among them. A standalone node has only the log.
func (n *node) announce(list []nodestatus.Event) {
	for _, e := range list {
		if e.Type == events.Warning {
			n.log.Warn("this machine is less safe than it could be", "reason", e.Reason, "message", e.Message)
		}
		n.recordNodeEvent(e)
	}
}
