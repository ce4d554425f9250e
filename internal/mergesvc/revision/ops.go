package revision

import (
	"cmp"
	"slices"
	"strings"
)

// opOrder is the order of ops within a revision: the kubelet's. The empty ADDs follow, then RECONCILE.
var opOrder = []Op{REMOVE, ADD, UPDATE, DELETE, RESTORE}

// Ops collects the changes of a revision or of a catch-up, one for each op and source. The zero value is empty.
type Ops struct {
	list  []Change
	ready []string
}

// Add puts the pod into the change of the given op, which is any but SET, and of its source. was is the version that p
// replaces; nil if there is none, or it isn't known.
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

// Ready says that the source became ready: by an empty ADD, unless the ops themselves tell of it. As in the kubelet ADD, UPDATE
// and DELETE of the source do; that it removes or reconciles pods doesn't.
func (o *Ops) Ready(source string) {
	if !slices.Contains(o.ready, source) {
		o.ready = append(o.ready, source)
	}
}

// Changes are the ops in the order in which consumers get them. Within an op the sources are ordered as given, others follow by
// name; if sources is nil, they stand in the order in which they were added to that op.
func (o *Ops) Changes(sources []string) []Change {
	var out []Change
	for _, op := range opOrder {
		out = append(out, o.of(op, sources)...)
	}
	for _, s := range o.ready {
		if !TellsOf(o.list, s) {
			out = append(out, Change{Op: ADD, Source: s})
		}
	}
	return append(out, o.of(RECONCILE, sources)...)
}

// of are the changes of one op.
func (o *Ops) of(op Op, sources []string) []Change {
	var out []Change
	for _, c := range o.list {
		if c.Op != op {
			continue
		}
		if len(c.Was) != len(c.Pods) {
			// What some pods replace isn't known: Was has one for each, or is nil.
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

// TellsOf tells whether the changes show that the source has spoken: by an ADD, empty or not, an UPDATE or a DELETE of it. In a
// revision that makes a source ready they always do, for every consumer that sees the source.
func TellsOf(changes []Change, source string) bool {
	return slices.ContainsFunc(changes, func(c Change) bool {
		return c.Source == source && (c.Op == ADD || c.Op == UPDATE || c.Op == DELETE)
	})
}
