package storage

import (
	"slices"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// candidates returns the operations that may be made now, in the order in which they should be tried. At most one of
// them is made at a time. The list is empty if the volume is as the pods want it.
func candidates(s *state) []operation {
	if op, ok := pending(s); ok {
		// The driver may still execute this call. Until it answers, there is no other.
		return []operation{op}
	}
	var ops []operation
	for i := range s.Publications {
		p := &s.Publications[i]
		switch {
		case p.Phase == record.Undoing, !s.kept(p.Target):
			ops = append(ops, operation{unpublish, p.Target})
		case p.Phase == record.Unsure:
			ops = append(ops, operation{publish, p.Target})
		}
	}
	if s.stale || s.Stages && s.Stage.Phase != record.Done && s.Published() {
		// The remains of another boot. Nothing is published on a volume that isn't staged.
		ops = slices.DeleteFunc(ops, func(o operation) bool { return o.kind != unpublish })
		if undo := undoStage(s); undo != nil {
			ops = append(ops, *undo)
		}
		return ops
	}
	if s.grow != nil && isDone(s.Publication(s.grow.target)) {
		ops = append(ops, operation{expand, s.grow.target})
	}
	if undo := undoStage(s); undo != nil {
		return append(ops, *undo)
	}
	ops = append(ops, forward(s)...)
	for i := range s.Publications {
		if p := &s.Publications[i]; p.Phase == record.Done && s.kept(p.Target) && s.renew[p.Target] {
			ops = append(ops, operation{republish, p.Target})
		}
	}
	return ops
}

// pending returns the call without an answer.
func pending(s *state) (operation, bool) {
	switch {
	case s.Expand.Pending:
		return operation{expand, s.ExpandTarget}, true
	case s.Stage.Pending && s.Stage.Phase == record.Undoing:
		return operation{kind: unstage}, true
	case s.Stage.Pending:
		return operation{kind: stage}, true
	}
	for i := range s.Publications {
		p := &s.Publications[i]
		switch {
		case p.Pending && p.Phase == record.Undoing:
			return operation{unpublish, p.Target}, true
		case p.Pending && p.Phase == record.Done:
			return operation{republish, p.Target}, true
		case p.Pending:
			return operation{publish, p.Target}, true
		}
	}
	return operation{}, false
}

// undoStage returns the operation that removes what no publication needs, or what no pod can use, or nil.
func undoStage(s *state) *operation {
	idle := len(s.wants) == 0
	switch {
	case s.Published():
		return nil
	case s.Stage.Phase == record.Undoing, (idle || s.relabels() || s.replaced()) && s.Stage.Phase != record.None:
		return &operation{kind: unstage}
	case idle && s.Use != record.NotInUse:
		return &operation{kind: dropInUse}
	default:
		return nil
	}
}

// forward returns the operations that bring about what pods want.
func forward(s *state) []operation {
	switch {
	case len(s.wants) == 0, s.relabels():
		return nil
	case !s.Attaches && s.Use != record.NotInUse && !s.Mounted():
		// Its driver has come to need no attachment. The controller deletes the one that there is.
		return []operation{{kind: dropInUse}}
	case s.UniqueName != "" && s.Use != record.InUse:
		return []operation{{kind: markInUse}}
	case s.Attaches && !s.Attached:
		return []operation{{kind: waitAttached}}
	case s.Stages && s.Stage.Phase != record.Done:
		return []operation{{kind: stage}}
	}
	var ops []operation
	for _, t := range s.wanted() {
		if s.Publication(t) == nil {
			ops = append(ops, operation{publish, t})
		}
	}
	return ops
}

// replaced reports whether the volume is staged for none of the pods that wait: with other arguments, such as those of an earlier
// PersistentVolume of this name, or of a pod that only reads. If the driver has refused to unstage it, pods get it as it is, unless they
// can't use it so.
func (s *state) replaced() bool {
	return len(s.wants) > 0 && !s.fits() && (!s.refused || s.exact())
}

// fits reports whether the volume is staged for one of the pods that wait. One is enough, so that pods that come and go don't have it staged
// again and again.
func (s *state) fits() bool {
	for _, w := range s.wants {
		// A driver that has come to stage nothing couldn't unstage it either.
		if args := w.volume.StageArgs; args == s.Stage.Args || args == "" {
			return true
		}
	}
	return false
}

// exact reports whether a pod waits that can't use the volume if it is staged with other arguments than its own.
func (s *state) exact() bool {
	for _, w := range s.wants {
		if w.volume.Exact {
			return true
		}
	}
	return false
}

func isDone(p *record.Publication) bool { return p != nil && p.Phase == record.Done }
