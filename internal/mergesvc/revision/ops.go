package revision

import (
	"cmp"
	"slices"
	"strings"
)

// opOrder is the kubelet's order of ops within a revision. The empty ADDs follow, then RECONCILE.
var opOrder = []Op{REMOVE, ADD, UPDATE, DELETE, RESTORE}

// Ops collects the changes of a revision or of a catch-up, one for each op and source. The zero value is empty.
type Ops struct {
	list  []Change
	ready []string
}

// Add puts the pod into the change of an op and of its source. The op isn't SET. was is the version that p replaces,
// or nil if there is none or it isn't known.
func (o *Ops) Add(op Op, p, was *Pod) {
	i := slices.IndexFunc(o.list, func(c Change) bool { return c.Op == op && c.Source == p.Source })
	if i < 0 {
		i = len(o.list)
		o.list = append(o.list, Change{Op: op, Source: p.Source})
	}
	c := &o.list[i]
	c.Pods = append(c.Pods, p)
	if was != nil {
		c.Was = append(c.Was, was)
	}
}

// Ready reports that the source became ready: by an empty ADD, unless an ADD, UPDATE or DELETE of the source reports
// it already. As in the kubelet, REMOVE and RECONCILE don't.
func (o *Ops) Ready(source string) {
	if !slices.Contains(o.ready, source) {
		o.ready = append(o.ready, source)
	}
}

// Changes returns the ops in the order in which consumers get them. Within an op the sources are in the given order;
// other sources follow by name. If sources is nil, they are in the order in which they were added to that op.
func (o *Ops) Changes(sources []string) []Change {
	var out []Change
	for _, op := range opOrder {
		out = append(out, o.of(op, sources)...)
	}
	for _, s := range o.ready {
		if !SourceRead(o.list, s) {
			out = append(out, Change{Op: ADD, Source: s})
		}
	}
	return append(out, o.of(RECONCILE, sources)...)
}

// of returns the changes of one op.
func (o *Ops) of(op Op, sources []string) []Change {
	var out []Change
	for _, c := range o.list {
		if c.Op != op {
			continue
		}
		if len(c.Was) != len(c.Pods) {
			// Some replaced versions aren't known: Was has one for each pod, or is nil.
			c.Was = nil
		}
		out = append(out, c)
	}
	if sources != nil {
		slices.SortStableFunc(out, func(a, b Change) int {
			return cmp.Or(cmp.Compare(rank(sources, a.Source), rank(sources, b.Source)), strings.Compare(a.Source, b.Source))
		})
	}
	return out
}

func rank(sources []string, name string) int {
	if i := slices.Index(sources, name); i >= 0 {
		return i
	}
	return len(sources)
}

// Restored returns the changes with the ADDs of some sources' pods as RESTOREs.
func Restored(changes []Change, unconfirmed func(source string) bool) []Change {
	if !slices.ContainsFunc(changes, func(c Change) bool { return c.Op == ADD && unconfirmed(c.Source) }) {
		return changes
	}
	var ops Ops
	for _, c := range changes {
		op := c.Op
		if op == ADD && unconfirmed(c.Source) {
			op = RESTORE
		}
		if len(c.Pods) == 0 {
			ops.Ready(c.Source)
		}
		for i, p := range c.Pods {
			var was *Pod
			if i < len(c.Was) {
				was = c.Was[i]
			}
			ops.Add(op, p, was)
		}
	}
	return ops.Changes(nil)
}

// WithReady returns the changes with the empty ADD of a source that became ready, unless they report that already.
func WithReady(changes []Change, source string) []Change {
	if SourceRead(changes, source) {
		return changes
	}
	at := slices.IndexFunc(changes, func(c Change) bool { return c.Op == RECONCILE })
	if at < 0 {
		at = len(changes)
	}
	return slices.Insert(slices.Clone(changes), at, Change{Op: ADD, Source: source})
}

// SourceRead reports whether the changes show that the source was read: by an ADD, empty or not, an UPDATE or a
// DELETE of the source. In a revision that makes a source ready they always do, for every consumer that sees the source.
func SourceRead(changes []Change, source string) bool {
	return slices.ContainsFunc(changes, func(c Change) bool {
		return c.Source == source && (c.Op == ADD || c.Op == UPDATE || c.Op == DELETE)
	})
}
