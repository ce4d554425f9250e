package robustness

import (
	"fmt"
	"slices"
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Ordered (G1) checks that revisions rise strictly, that every consumer in exact history sees the same order,
// and that the ops of one revision come in the kubelet's order.
func Ordered(r *Run) error {
	type seen struct {
		ops string
		by  *passage
	}
	type key struct {
		life     int
		revision uint64
		view     string
	}
	first := map[key]seen{}
	for _, p := range r.passages {
		if err := inOrder(p); err != nil {
			return err
		}
		if p.kind != exact || p.unit.cursor == nil || p.unit.mixed() || len(p.open) > 0 {
			continue
		}
		k, ops := key{p.life.number, p.to(), p.view.key()}, wording(p.unit.updates())
		if other, ok := first[k]; !ok {
			first[k] = seen{ops, p}
		} else if other.ops != ops {
			return p.broken("revision %d is not what consumer %s received as that revision: %s", p.to(), other.by.consumer.Name, other.ops)
		}
	}
	return nil
}

// inOrder checks one unit against the one before it on its stream, and within itself.
func inOrder(p *passage) error {
	if p.unit.cursor != nil && p.placed {
		switch to := p.to(); {
		case to < p.from:
			return p.broken("the cursor goes back from revision %d to %d", p.from, to)
		case to == p.from && p.kind != mark && !p.opening:
			return p.broken("revision %d comes again; want revisions to rise", to)
		}
	}
	if p.kind == exact && p.moment != nil && !p.moment.read().IsZero() {
		for _, u := range p.unit.updates() {
			if u.GetObservedTime() != nil && !u.GetObservedTime().AsTime().Equal(p.moment.read()) {
				return p.broken("revision %d has an op that was observed at %v; the source was read for it at %v",
					p.to(), u.GetObservedTime().AsTime().Unix(), p.moment.read().Unix())
			}
		}
	}
	return opsInOrder(p)
}

// opRank is the place of an op within a revision. A SET replaces all pods.
var opRank = map[podconfigv1.PodOperation]int{
	podconfigv1.PodOperation_POD_OPERATION_REMOVE:    1,
	podconfigv1.PodOperation_POD_OPERATION_SET:       2,
	podconfigv1.PodOperation_POD_OPERATION_ADD:       3,
	podconfigv1.PodOperation_POD_OPERATION_UPDATE:    4,
	podconfigv1.PodOperation_POD_OPERATION_DELETE:    5,
	podconfigv1.PodOperation_POD_OPERATION_RESTORE:   6,
	podconfigv1.PodOperation_POD_OPERATION_RECONCILE: 8,
}

// emptyRank is the place of the empty ADD.
const emptyRank = 7

func opsInOrder(p *passage) error {
	last, lastOp := 0, ""
	for _, u := range p.unit.updates() {
		rank, op := opRank[u.GetOp()], opName(u.GetOp())
		if rank == 0 {
			return p.broken("the op %s isn't one of podconfig.v1", op)
		}
		if len(u.GetPods()) == 0 && u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_ADD {
			rank, op = emptyRank, "the empty ADD"
		}
		if rank < last {
			return p.broken("%s of %s comes after %s", op, u.GetSource(), lastOp)
		}
		last, lastOp = rank, op
	}
	return nil
}

// wording returns the ops as text, independent of their messages and of the pods' format. The order of ops of
// one kind isn't promised.
func wording(updates []*podconfigv1.PodUpdate) string {
	var out, same []string
	for i, u := range updates {
		if i > 0 && u.GetOp() != updates[i-1].GetOp() {
			slices.Sort(same)
			out, same = append(out, same...), nil
		}
		if len(u.GetPods()) == 0 {
			same = append(same, opName(u.GetOp())+" "+u.GetSource())
		}
		for _, p := range u.GetPods() {
			same = append(same, fmt.Sprintf("%s %s %s %s %s", opName(u.GetOp()), p.GetSource(), p.GetRef().GetUid(),
				short(p.GetSpecDigest()), short(p.GetStatusDigest())))
		}
	}
	slices.Sort(same)
	return strings.Join(append(out, same...), "; ")
}
