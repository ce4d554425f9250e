package storage

import (
	"maps"
	"slices"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// call returns the operation's call in the state, as it was recorded last.
func call(s *state, op operation) record.Call {
	switch op.kind {
	case stage, unstage:
		return s.Stage
	case expand:
		return s.Expand
	case publish, republish, unpublish:
		if p := s.Publication(op.target); p != nil {
			return p.Call
		}
	}
	return record.Call{}
}

// begin changes the state to what is recorded before the operation: the intent. The operation is a candidate.
func begin(s *state, op operation) {
	switch op.kind {
	case markInUse:
		s.Use = record.AddingUse
	case dropInUse:
		// The volume may be detached as soon as the API server has the request.
		s.Use = record.DroppingUse
		s.Attached, s.Context = false, nil
	case stage:
		if s.Stage.Phase == record.None {
			v := s.leader()
			s.Stage.Args = v.StageArgs
			s.mountWith(v)
		}
		s.Stage.Phase, s.Stage.Pending = record.Unsure, true
	case unstage:
		if s.Stage.Phase != record.Undoing {
			s.Stage.Reusable = true
		}
		s.Stage.Phase, s.Stage.Pending = record.Undoing, true
	case publish:
		p := s.Publication(op.target)
		if p == nil {
			w := s.wants[op.target]
			s.mountWith(&w.volume)
			s.Publications = append(s.Publications, record.Publication{
				Target: op.target, Call: record.Call{Args: w.volume.PublishArgs},
				Volumes: w.volumes, Dir: w.dir, ReadOnly: w.volume.ReadOnly, Device: w.volume.Device, Group: w.volume.Group,
				Pod: w.pod, Exclusive: w.volume.Exclusive, FSGroup: w.volume.fsGroup(), KeepsGroup: s.keepsGroup(&w.volume),
			})
			p = &s.Publications[len(s.Publications)-1]
			s.oweGroup(p)
		}
		p.Phase, p.Pending = record.Unsure, true
	case republish:
		s.Publication(op.target).Pending = true
	case unpublish:
		p := s.Publication(op.target)
		p.Phase, p.Pending = record.Undoing, true
	case expand:
		if s.grow != nil && s.Expand.Phase == record.None {
			s.Expand.Args, s.ExpandTarget = s.grow.args, s.grow.target
			s.grow = nil
		}
		s.Expand.Phase, s.Expand.Pending = record.Unsure, true
	}
}

// finish changes the state to what is known after the operation. was is its call before begin, and attachment what
// waitAttached returned.
func finish(s *state, op operation, was record.Call, out Outcome, attachment map[string]string) {
	if out == Unrepeatable {
		if s.useless(op, was) {
			abandon(s, op)
			return
		}
		out = NotSent
	}
	if out == InProgress {
		out = Uncertain
		if op.kind == unstage && was.Pending {
			out = Unanswered
		}
	}
	switch op.kind {
	case markInUse:
		if out == succeeded {
			s.Use = record.InUse
		}
		return
	case dropInUse:
		if out == succeeded {
			s.Use = record.NotInUse
			s.refresh() // Only mounted volumes have traits to keep.
		}
		return
	case waitAttached:
		if out == succeeded {
			s.Attached, s.Context = true, maps.Clone(attachment)
		}
		return
	case stage:
		if out != succeeded && was.Phase == record.None {
			s.yield(s.Stage.Args)
		}
		s.Stage = made(s.Stage, was, out)
	case unstage:
		s.Stage = unstaged(s.Stage, was, out)
		switch out {
		case Final, Uncertain:
			s.refused = s.Stage.Phase == record.Unsure
		case succeeded:
			s.refused = false
		}
	case publish, republish, unpublish:
		finishPublication(s, op, was, out)
	case expand:
		// An expansion is asked for again until it succeeds. Only one without an answer must be remembered.
		if out == NotSent {
			s.Expand = was
		} else if out != Unanswered {
			s.Expand = record.Call{}
		}
		if s.Expand.Phase == record.None {
			s.Expand, s.ExpandTarget = record.Call{}, record.Target{}
		}
	}
	if !s.Mounted() {
		s.unmounted()
	}
}

// useless reports whether the operation repeats a call without an answer that makes or changes something which no pod wants, or none wants so.
func (s *state) useless(op operation, was record.Call) bool {
	switch {
	case !was.Pending:
		return false
	case op.kind == stage:
		return !s.fits()
	default:
		return (op.kind == publish || op.kind == republish || op.kind == expand) && !s.kept(op.target)
	}
}

// abandon gives up a call without an answer. What it may have made is undone next: the driver answers that only after the earlier call, or
// refuses it meanwhile.
func abandon(s *state, op operation) {
	switch op.kind {
	case stage:
		s.Stage.Phase, s.Stage.Pending = record.Undoing, false
	case publish, republish:
		p := s.Publication(op.target)
		p.Phase, p.Pending = record.Undoing, false
	case expand:
		s.Expand, s.ExpandTarget = record.Call{}, record.Target{}
	}
}

func finishPublication(s *state, op operation, was record.Call, out Outcome) {
	at := slices.IndexFunc(s.Publications, func(p record.Publication) bool { return p.Target == op.target })
	p := &s.Publications[at]
	switch op.kind {
	case publish:
		p.Call = made(p.Call, was, out)
		s.settleGroup(p)
	case republish:
		p.Call = repeated(p.Call, was, out)
		if out == succeeded {
			delete(s.renew, op.target)
		}
	default:
		p.Call = undone(p.Call, was, out)
	}
	if p.Phase == record.None {
		s.Publications = slices.Delete(s.Publications, at, at+1)
		s.settleGroup(nil)
		delete(s.held, op.target)
	}
}

// made returns what is known after a call that makes something.
func made(c, was record.Call, out Outcome) record.Call {
	switch out {
	case succeeded:
		c.Phase, c.Pending = record.Done, false
	case Final:
		if was.Phase == record.None {
			return record.Call{}
		}
		// This call did nothing, but an earlier one may have.
		c.Phase, c.Pending = record.Undoing, false
	case Uncertain:
		c.Pending = false
	case NotSent:
		return was
	}
	return c
}

// repeated returns what is known after the call of a publication was repeated: whatever the answer, it is published.
func repeated(c, was record.Call, out Outcome) record.Call {
	switch out {
	case NotSent:
		return was
	case succeeded, Final, Uncertain:
		c.Pending = false
	}
	return c
}

// unstaged returns what is known after the volume was unstaged. If the driver refuses it, a pod may want the volume again: it is staged
// with the same arguments then, as the kubelet does; also if earlier calls had no answer. What must be undone first, whatever pods want,
// stays so.
func unstaged(c, was record.Call, out Outcome) record.Call {
	c = undone(c, was, out)
	if (out == Final || out == Uncertain) && c.Reusable {
		c.Phase, c.Reusable = record.Unsure, false
	}
	return c
}

// undone returns what is known after a call that undoes something.
func undone(c, was record.Call, out Outcome) record.Call {
	switch out {
	case succeeded:
		return record.Call{}
	case NotSent:
		return was
	case Final, Uncertain:
		c.Pending = false
	}
	return c
}
