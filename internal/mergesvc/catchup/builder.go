package catchup

import (
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// order is that of the ops of a revision; the empty ADD stands before RECONCILE.
var order = []revision.Op{revision.REMOVE, revision.ADD, revision.UPDATE, revision.DELETE, revision.RESTORE}

// builder collects changes by op and source.
type builder struct {
	pods map[key][]*revision.Pod
	// ready are the sources that became ready.
	ready []string
}

type key struct {
	op     revision.Op
	source string
}

func (b *builder) add(op revision.Op, p *revision.Pod) {
	if b.pods == nil {
		b.pods = map[key][]*revision.Pod{}
	}
	k := key{op, p.Source}
	b.pods[k] = append(b.pods[k], p)
}

// appear is the op for a pod that the consumer doesn't hold.
func (b *builder) appear(p *revision.Pod) {
	if p.Stale {
		b.add(revision.RESTORE, p)
	} else {
		b.add(revision.ADD, p)
	}
}

// change is the op for a pod whose spec the consumer holds in another version.
func (b *builder) change(p *revision.Pod) {
	if p.Object.DeletionTimestamp != nil {
		b.add(revision.DELETE, p)
	} else {
		b.add(revision.UPDATE, p)
	}
}

// changes are the ops in the order of delivery, by source within each op: the configured ones by priority, then the others.
func (b *builder) changes(configured history.Sources) []revision.Change {
	var out []revision.Change
	sources := b.sources(configured)
	pick := func(op revision.Op) {
		for _, s := range sources {
			if pods := b.pods[key{op, s}]; len(pods) > 0 {
				out = append(out, revision.Change{Op: op, Source: s, Pods: pods})
			}
		}
	}
	for _, op := range order {
		pick(op)
	}
	for _, s := range b.ready {
		if b.pods[key{revision.ADD, s}] == nil && b.pods[key{revision.UPDATE, s}] == nil && b.pods[key{revision.DELETE, s}] == nil {
			out = append(out, revision.Change{Op: revision.ADD, Source: s})
		}
	}
	pick(revision.RECONCILE)
	return out
}

func (b *builder) sources(configured history.Sources) []string {
	var out, others []string
	for _, s := range configured {
		out = append(out, s.Name)
	}
	for k := range b.pods {
		if !slices.Contains(out, k.source) && !slices.Contains(others, k.source) {
			others = append(others, k.source)
		}
	}
	slices.Sort(others)
	return append(out, others...)
}
