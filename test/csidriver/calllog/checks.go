package calllog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
)

// Checks are all checks that hold at any time, by name. NothingLeft is for the end.
var Checks = map[string]func([]*Call) []string{
	"Overlaps":               Overlaps,
	"StageBeforePublish":     StageBeforePublish,
	"UnpublishBeforeUnstage": UnpublishBeforeUnstage,
	"SameArguments":          SameArguments,
	"OneNode":                OneNode,
	"AttachBeforeStage":      AttachBeforeStage,
}

// Check returns what all Checks find, each problem after its check's name.
func Check(calls []*Call) (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(Checks)) {
		for _, p := range Checks[name](calls) {
			problems = append(problems, name+": "+p)
		}
	}
	return problems
}

// Overlaps finds calls of the node service for a volume that began while another one for it was under way. A call whose caller has gone
// doesn't count: a CO may repeat a call after its time-out. NodeGetVolumeStats and NodeGetVolumeHealth may come at any time.
func Overlaps(calls []*Call) (problems []string) {
	type volume struct {
		driverOf
		id string
	}
	last := map[volume][]*Call{}
	for _, c := range calls {
		switch c.Method {
		case "NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeExpandVolume":
		default:
			continue
		}
		of := volume{driverOf{c.Driver, c.Node}, c.Volume}
		open := last[of][:0:0]
		for _, earlier := range last[of] {
			until := earlier.ended
			if earlier.gone != 0 && (until == 0 || earlier.gone < until) {
				until = earlier.gone
			}
			// The driver knows of calls that have ended while it waited for news of their callers.
			if until == 0 || until > c.began || earlier.Run == c.Run && slices.Contains(c.Overlaps, earlier.Call) {
				problems = append(problems, fmt.Sprintf("%v overlaps %v", c, earlier))
			}
			if until == 0 || until > c.began {
				open = append(open, earlier)
			}
		}
		last[of] = append(open, c)
	}
	return problems
}

// StageBeforePublish finds calls of NodePublishVolume for which the volume isn't staged at their staging path. Drivers without
// STAGE_UNSTAGE_VOLUME and inline volumes have no staging.
func StageBeforePublish(calls []*Call) (problems []string) {
	h := held{}
	for _, m := range moments(calls) {
		c := m.call
		if c.Method == "NodePublishVolume" && !m.end && c.Stages && !inline(c) {
			staging := place{driverOf: driverOf{c.Driver, c.Node}, volume: c.Volume, path: c.Staging}
			if h[staging].state != present {
				problems = append(problems, fmt.Sprintf("%v: it isn't staged at %q", c, c.Staging))
			}
		}
		h.apply(m)
	}
	return problems
}

// inline reports whether a call publishes an inline ephemeral volume.
func inline(c *Call) bool {
	var args struct {
		Context map[string]string `json:"volume_context"`
	}
	_ = json.Unmarshal(c.Args, &args)
	return args.Context["csi.storage.k8s.io/ephemeral"] == "true"
}

// UnpublishBeforeUnstage finds calls of NodeUnstageVolume for a volume that is, or perhaps is, published.
func UnpublishBeforeUnstage(calls []*Call) (problems []string) {
	h := held{}
	for _, m := range moments(calls) {
		if m.call.Method == "NodeUnstageVolume" && !m.end {
			if by := h.target(m.call); by != nil {
				problems = append(problems, fmt.Sprintf("%v: still published by %v", m.call, by))
			}
		}
		h.apply(m)
	}
	return problems
}

// SameArguments finds repeated calls with other arguments than the one before: of NodeStageVolume and NodePublishVolume while the
// path is, or perhaps is, in use. Values of secrets, and of tokens for service accounts, aren't compared.
func SameArguments(calls []*Call) (problems []string) {
	h := held{}
	last := map[place]*Call{}
	for _, m := range moments(calls) {
		c := m.call
		p := of(c)
		up := c.Method == "NodeStageVolume" || c.Method == "NodePublishVolume"
		before := h.apply(m)
		if !up || m.end {
			continue
		}
		if earlier := last[p]; before.state != absent && earlier != nil && !bytes.Equal(earlier.Args, c.Args) {
			problems = append(problems, fmt.Sprintf("%v has the arguments %s; %v had %s", c, c.Args, earlier, earlier.Args))
		}
		last[p] = c
	}
	return problems
}

// OneNode finds calls of NodeStageVolume, or of NodePublishVolume for drivers without staging, for a volume that is, or perhaps is, staged
// or published on another node. It is for volumes that one node may use at a time.
func OneNode(calls []*Call) (problems []string) {
	h := held{}
	for _, m := range moments(calls) {
		c := m.call
		if (c.Method == "NodeStageVolume" || c.Method == "NodePublishVolume") && !m.end && oneNode(c) {
			for p, now := range h {
				if p.driver == c.Driver && p.volume == c.Volume && p.node != c.Node {
					problems = append(problems, fmt.Sprintf("%v: in use on node %s by %v", c, p.node, now.by))
				}
			}
		}
		h.apply(m)
	}
	slices.Sort(problems)
	return problems
}

// oneNode reports whether the access mode of a call is one of a single node.
func oneNode(c *Call) bool {
	var args struct {
		Capability struct {
			Mode struct {
				Mode string `json:"mode"`
			} `json:"access_mode"`
		} `json:"volume_capability"`
	}
	_ = json.Unmarshal(c.Args, &args)
	switch args.Capability.Mode.Mode {
	case "SINGLE_NODE_WRITER", "SINGLE_NODE_READER_ONLY", "SINGLE_NODE_SINGLE_WRITER", "SINGLE_NODE_MULTI_WRITER":
		return true
	}
	return false
}

// AttachBeforeStage finds calls of NodeStageVolume and NodePublishVolume without the publish context of ControllerPublishVolume, for
// drivers whose volumes must be attached.
func AttachBeforeStage(calls []*Call) (problems []string) {
	for _, c := range calls {
		if c.Method != "NodeStageVolume" && c.Method != "NodePublishVolume" || !c.Attaches || inline(c) {
			continue
		}
		var args struct {
			Context map[string]string `json:"publish_context"`
		}
		_ = json.Unmarshal(c.Args, &args)
		if len(args.Context) == 0 {
			problems = append(problems, fmt.Sprintf("%v has no publish context", c))
		}
	}
	return problems
}

// NothingLeft finds what is, or perhaps is, staged or published at the end of the log, and calls that are under way.
func NothingLeft(calls []*Call) (problems []string) {
	h := held{}
	for _, m := range moments(calls) {
		h.apply(m)
	}
	left := slices.Collect(maps.Values(h))
	slices.SortFunc(left, func(a, b holding) int { return cmp.Compare(a.by.began, b.by.began) })
	for _, l := range left {
		problems = append(problems, fmt.Sprintf("%v: nothing has undone it", l.by))
	}
	for _, c := range calls {
		if !c.Ended && !c.Cut {
			problems = append(problems, fmt.Sprintf("%v at the end of the log", c))
		}
	}
	return problems
}

// Succeeded returns the calls of these that ended with OK.
func Succeeded(calls []*Call) (found []*Call) {
	for _, c := range calls {
		if c.Ended && c.Code == codes.OK {
			found = append(found, c)
		}
	}
	return found
}
