package calllog

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
)

// moment is the begin or the end of a call.
type moment struct {
	call *Call
	end  bool
	at   int
}

// moments returns the begins and ends of all node calls that change volumes, in the log's order. A call that is under way has no end.
// An Off is the end of a call whose method is Off.
func moments(calls []*Call) (all []moment) {
	offs := map[int]bool{}
	for _, c := range calls {
		switch c.Method {
		case "NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume":
		default:
			continue
		}
		if c.off != 0 && !offs[c.off] {
			offs[c.off] = true
			off := &Call{Record: Record{Driver: c.Driver, Node: c.Node, Method: string(Off)}}
			all = append(all, moment{call: off, end: true, at: c.off})
		}
		all = append(all, moment{call: c, at: c.began})
		if c.Ended || c.Cut {
			all = append(all, moment{call: c, end: true, at: c.ended})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// state is what a CO must assume of a path.
type state int

const (
	absent state = iota
	// perhaps: a call that would mount it has begun, and has no certain answer.
	perhaps
	present
)

// place is a path of a volume on a node. A staging path and a target are different places.
type place struct {
	driverOf
	volume, path string
	target       bool
}

// of returns the place that a call changes.
func of(c *Call) place {
	p := place{driverOf: driverOf{c.Driver, c.Node}, volume: c.Volume, path: c.Staging}
	if c.Method == "NodePublishVolume" || c.Method == "NodeUnpublishVolume" {
		p.path, p.target = c.Target, true
	}
	return p
}

// held are the places that aren't absent, with the last call that made them.
type held map[place]holding

type holding struct {
	state state
	by    *Call
	// undone reports whether a call that undoes it has begun, and has no certain answer. Until then it was present.
	undone bool
}

// apply follows a moment. before is the place's state until then.
func (h held) apply(m moment) (before holding) {
	if m.call.Method == string(Off) {
		maps.DeleteFunc(h, func(p place, _ holding) bool { return p.driverOf == driverOf{m.call.Driver, m.call.Node} })
		return holding{}
	}
	p := of(m.call)
	before = h[p]
	up := m.call.Method == "NodeStageVolume" || m.call.Method == "NodePublishVolume"
	switch {
	case up && !m.end:
		if before.state == absent {
			h[p] = holding{state: perhaps, by: m.call}
		}
	case up && m.call.Ended && m.call.Code == codes.OK:
		h[p] = holding{state: present, by: m.call}
	case up && before.state == perhaps && before.by == m.call && m.call.Ended && certain(m.call.Code):
		// The first call for the place, and the driver says that it has done nothing. After an uncertain one, that says nothing of
		// what the first has done.
		delete(h, p)
	case !up && !m.end && before.state == present:
		h[p] = holding{state: perhaps, by: before.by, undone: true}
	case !up && m.end && m.call.Ended && m.call.Code == codes.OK:
		delete(h, p)
	case !up && m.end && m.call.Ended && certain(m.call.Code) && before.undone:
		h[p] = holding{state: present, by: before.by}
	}
	return before
}

// certain reports whether a code, other than OK, says that the call did nothing.
func certain(code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.AlreadyExists:
		return false
	}
	return true
}

// target returns the first call that has, or perhaps has, published the call's volume on its node, or nil.
func (h held) target(c *Call) *Call {
	var found []*Call
	for p, now := range h {
		if p.driverOf == (driverOf{c.Driver, c.Node}) && p.volume == c.Volume && p.target {
			found = append(found, now.by)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *Call) int { return cmp.Compare(a.began, b.began) })
}
