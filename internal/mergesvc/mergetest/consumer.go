package mergetest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// order is the order of the ops within a revision or catch-up. The empty ADD is an ADD here; that it precedes
// RECONCILE is checked, that it follows RESTORE isn't.
var order = []revision.Op{
	revision.REMOVE, revision.ADD, revision.UPDATE, revision.DELETE, revision.RESTORE, revision.RECONCILE,
}

// Consumer is what a consumer of the stream holds. It is strict: it refuses ops that change nothing, that don't match
// their pods, or that are in the wrong order.
type Consumer struct {
	Pods map[types.UID]*revision.Pod
	// Elsewhere is set if Pods come from another instance: then an ADD of a pod that it holds is an update, and the
	// pods' names and creation aren't checked.
	Elsewhere bool
	// Coalesced is set if the changes are: a pod that changed and changed back still has an op.
	Coalesced bool
	// Digests returns those of a pod as the consumer gets it. Nil: those of the whole pod.
	Digests func(*revision.Pod) (spec, status string)
}

// At returns a consumer that holds exactly the pods of the state.
func At(st *history.State) *Consumer {
	c := &Consumer{Pods: map[types.UID]*revision.Pod{}}
	for _, p := range st.Pods {
		c.Pods[p.UID()] = p
	}
	return c
}

// Apply applies the changes of a revision or a catch-up.
func (c *Consumer) Apply(changes []revision.Change) error {
	last := 0
	for _, change := range changes {
		at := slices.Index(order, change.Op)
		if len(change.Pods) == 0 {
			if change.Op != revision.ADD {
				return fmt.Errorf("%s of %s has no pods; only an ADD may have none", change.Op, change.Source)
			}
			at = max(at, last)
		}
		if at < last {
			return fmt.Errorf("%s of %s comes too late; want the order %v", change.Op, change.Source, order)
		}
		last = at
		for _, p := range change.Pods {
			if p.Source != change.Source {
				return fmt.Errorf("%s of pod %s is in a change of source %s; want its own, %s", change.Op, p, change.Source, p.Source)
			}
			if err := c.apply(change.Op, p); err != nil {
				return fmt.Errorf("%s of pod %s (%s of %s): %w", change.Op, p, p.UID(), p.Source, err)
			}
		}
	}
	return nil
}

func (c *Consumer) apply(op revision.Op, p *revision.Pod) error {
	held := c.Pods[p.UID()]
	sameSpec, sameStatus := c.compare(held, p)
	var err error
	switch op {
	case revision.REMOVE:
		if held == nil || held.Source != p.Source || !c.Elsewhere && held.FullName() != p.FullName() {
			return fmt.Errorf("the consumer holds %v; want no REMOVE but of what it holds", held)
		}
		delete(c.Pods, p.UID())
		return nil
	case revision.ADD, revision.RESTORE:
		if held != nil && (!c.Elsewhere || c.same(held, p)) {
			return fmt.Errorf("the consumer holds it already; want nothing, or UPDATE")
		}
		if held != nil && held.Source != p.Source {
			return fmt.Errorf("the consumer holds it of source %s; want REMOVE before", held.Source)
		}
	case revision.UPDATE, revision.DELETE:
		err = c.successor(held, p)
		switch {
		case err != nil:
		case sameSpec && !c.Coalesced:
			err = fmt.Errorf("the spec digest is as before; want RECONCILE or nothing")
		case (p.Object.DeletionTimestamp != nil) != (op == revision.DELETE):
			err = fmt.Errorf("deletionTimestamp is %v; want DELETE if and only if it is set", p.Object.DeletionTimestamp)
		}
	case revision.RECONCILE:
		err = c.successor(held, p)
		if err == nil && (!sameSpec || sameStatus && !c.Coalesced) {
			err = fmt.Errorf("want RECONCILE if and only if the status alone changed")
		}
	}
	c.Pods[p.UID()] = p
	return err
}

// successor returns an error if next isn't a later version of the held pod.
func (c *Consumer) successor(held, next *revision.Pod) error {
	if held == nil || held.Source != next.Source {
		return fmt.Errorf("the consumer holds %v; want REMOVE and ADD", held)
	}
	if !c.Elsewhere && (held.Created != next.Created || held.FullName() != next.FullName()) {
		return fmt.Errorf("the consumer holds %s, created at revision %d, and this one was created at %d; want REMOVE and ADD",
			held, held.Created, next.Created)
	}
	return nil
}

// Diff describes how the consumer differs from the pods that it should hold; empty if it doesn't. extra reports which
// further pods it may hold.
func (c *Consumer) Diff(want []*revision.Pod, extra func(*revision.Pod) bool) error {
	wanted := map[types.UID]bool{}
	for _, p := range want {
		wanted[p.UID()] = true
		switch held := c.Pods[p.UID()]; {
		case held == nil:
			return fmt.Errorf("the consumer lacks pod %s (%s of %s)", p, p.UID(), p.Source)
		case held.Source != p.Source || !c.same(held, p):
			return fmt.Errorf("the consumer holds another version or source of pod %s (%s): %s; want %s",
				p, p.UID(), held.Source, p.Source)
		}
	}
	for uid, p := range c.Pods {
		if !wanted[uid] && !extra(p) {
			return fmt.Errorf("the consumer still holds pod %s (%s of %s), which is gone", p, uid, p.Source)
		}
	}
	return nil
}

// None is an extra of Diff: no further pods.
func None(*revision.Pod) bool { return false }

func (c *Consumer) same(a, b *revision.Pod) bool {
	spec, status := c.compare(a, b)
	return a.Source == b.Source && spec && status
}

// compare reports whether the specs and the statuses of two pods are equal to the consumer. Nil equals no pod.
func (c *Consumer) compare(a, b *revision.Pod) (sameSpec, sameStatus bool) {
	if a == nil || b == nil {
		return false, false
	}
	digests := c.Digests
	if digests == nil {
		digests = func(p *revision.Pod) (string, string) { return p.SpecDigest, p.StatusDigest }
	}
	specA, statusA := digests(a)
	specB, statusB := digests(b)
	return specA == specB, statusA == statusB
}
