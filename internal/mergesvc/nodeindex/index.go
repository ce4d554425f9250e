package nodeindex

import (
	"iter"
	"slices"
)

// MaxNodes is the maximum of nodes for which a reader should use an Index: each call of Next looks at each of them. A
// reader of more nodes reads all revisions.
const MaxNodes = 8

// Concern is what one revision concerns.
type Concern struct {
	// Nodes are its nodes. The Index keeps the slice.
	Nodes []string
	// Every is set if it concerns all readers.
	Every bool
}

// Index has the numbers of the kept revisions, by node, and the readers of each node. New returns one.
type Index[R comparable] struct {
	nodes map[string]*entry[R]
	// every has the revisions that concern all readers, and all readers.
	every entry[R]
	// kept are the kept revisions, in order. floor is the last one before them.
	kept  []numbered
	floor uint64
}

// numbered is one revision.
type numbered struct {
	number uint64
	Concern
}

// entry is one node.
type entry[R comparable] struct {
	// numbers are the kept revisions that concern it, in order. All those after dropped are among them.
	numbers []uint64
	dropped uint64
	readers map[R]struct{}
}

// New returns the Index of a history that keeps nothing yet, and whose last revision is floor.
func New[R comparable](floor uint64) *Index[R] {
	return &Index[R]{nodes: map[string]*entry[R]{}, every: entry[R]{dropped: floor, readers: map[R]struct{}{}}, floor: floor}
}

// Add records a revision. Its number is higher than all others.
func (x *Index[R]) Add(number uint64, c Concern) {
	x.kept = append(x.kept, numbered{number, c})
	if c.Every {
		x.every.add(number)
	}
	for _, name := range c.Nodes {
		x.node(name).add(number)
	}
}

// Drop records that the oldest revision isn't kept any more.
func (x *Index[R]) Drop() {
	oldest := x.kept[0]
	x.kept[0] = numbered{}
	x.kept, x.floor = x.kept[1:], oldest.number
	if oldest.Every {
		x.every.drop(oldest.number)
	}
	for _, name := range oldest.Nodes {
		if e := x.nodes[name]; e != nil {
			e.drop(oldest.number)
			x.tidy(name, e)
		}
	}
}

// Next returns the first revision after number that concerns one of the nodes; zero if there is none. kept is false if
// there may have been one that isn't kept any more.
func (x *Index[R]) Next(number uint64, nodes []string) (next uint64, kept bool) {
	next, kept = x.every.next(number, 0)
	for _, name := range nodes {
		if !kept {
			return 0, false
		}
		if e := x.nodes[name]; e != nil {
			next, kept = e.next(number, next)
		} else {
			kept = number >= x.floor
		}
	}
	return next, kept
}

// Join adds a reader of the nodes. It must have joined before a revision for Readers to yield it.
func (x *Index[R]) Join(r R, nodes []string) {
	x.every.readers[r] = struct{}{}
	for _, name := range nodes {
		e := x.node(name)
		if e.readers == nil {
			e.readers = map[R]struct{}{}
		}
		e.readers[r] = struct{}{}
	}
}

// Leave removes a reader. The nodes are those of its Join.
func (x *Index[R]) Leave(r R, nodes []string) {
	delete(x.every.readers, r)
	for _, name := range nodes {
		if e := x.nodes[name]; e != nil {
			delete(e.readers, r)
			x.tidy(name, e)
		}
	}
}

// Readers yields the readers that a revision concerns. One that reads several of its nodes may be yielded twice.
func (x *Index[R]) Readers(c Concern) iter.Seq[R] {
	return func(yield func(R) bool) {
		if c.Every {
			for r := range x.every.readers {
				if !yield(r) {
					return
				}
			}
			return
		}
		for _, name := range c.Nodes {
			e := x.nodes[name]
			if e == nil {
				continue
			}
			for r := range e.readers {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// node returns the entry of a node, and makes it if necessary.
func (x *Index[R]) node(name string) *entry[R] {
	e := x.nodes[name]
	if e == nil {
		// What concerned it before isn't known.
		e = &entry[R]{dropped: x.floor}
		x.nodes[name] = e
	}
	return e
}

// tidy removes an entry that has nothing.
func (x *Index[R]) tidy(name string, e *entry[R]) {
	if len(e.numbers) == 0 && len(e.readers) == 0 {
		delete(x.nodes, name)
	}
}

func (e *entry[R]) add(number uint64) {
	if n := len(e.numbers); n == 0 || e.numbers[n-1] != number {
		e.numbers = append(e.numbers, number)
	}
}

func (e *entry[R]) drop(number uint64) {
	if len(e.numbers) > 0 && e.numbers[0] <= number {
		e.numbers, e.dropped = e.numbers[1:], number
	}
}

// next returns the first revision after number, or before if that is lower and not zero.
func (e *entry[R]) next(number, before uint64) (next uint64, kept bool) {
	if number < e.dropped {
		return 0, false
	}
	i, found := slices.BinarySearch(e.numbers, number)
	if found {
		i++
	}
	if i < len(e.numbers) && (before == 0 || e.numbers[i] < before) {
		return e.numbers[i], true
	}
	return before, true
}
