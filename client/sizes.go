package client

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// itemBytes is what a pod or an object counts beside its encoding: the consumer keeps its names and digests.
const itemBytes = 256

// sizes bounds what a consumer holds. podconfigd decides how many pods there are, and no revision by itself shows
// that they are too many.
type sizes[K comparable] struct {
	limit, bytes int
	of           map[K]int
}

// after returns the sizes of what a revision changes. Later changes of one key count. Without a limit nothing is counted.
func (s *sizes[K]) after() change[K] {
	if s.limit == 0 {
		return change[K]{s, nil}
	}
	return change[K]{s, map[K]int{}}
}

// podKey identifies a held pod.
type podKey struct{ source, uid string }

// change is what a revision changes: zero for what it removes.
type change[K comparable] struct {
	*sizes[K]
	next map[K]int
}

func (c change[K]) put(key K, m proto.Message) {
	if c.next != nil {
		c.next[key] = proto.Size(m) + itemBytes
	}
}

func (c change[K]) remove(key K) {
	if c.next != nil {
		c.next[key] = 0
	}
}

// check returns an error if the revision makes it more than the limit. A revision that makes it less is never
// refused.
func (c change[K]) check(what string) error {
	if after := c.total(); c.limit > 0 && after > c.limit && after > c.bytes {
		return fmt.Errorf("%w: %s of %d bytes; at most %d are followed", errTooMuch, what, after, c.limit)
	}
	return nil
}

func (c change[K]) total() int {
	total := c.bytes
	for key, size := range c.next {
		total += size - c.of[key]
	}
	return total
}

// apply records the change.
func (c change[K]) apply() {
	c.bytes = c.total()
	if c.of == nil {
		c.of = map[K]int{}
	}
	for key, size := range c.next {
		if c.of[key] = size; size == 0 {
			delete(c.of, key)
		}
	}
}
