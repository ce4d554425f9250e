package podctl

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// The bounds of a list, and of the pods that a stream follows: a node has a thousand pods, and a gateway's thousand nodes have
// less than this. A daemon that sends more is broken, or isn't the daemon.
const maxItems, maxItemBytes = 200_000, 256 << 20

// maxEmptyPages is how many pages of a list may be without an item.
const maxEmptyPages = 1000

// listSize is the size of items that are kept.
type listSize struct {
	items, bytes       int
	maxItems, maxBytes int
}

// newListSize returns the size of no items, with the bounds of Config.
func (t *tool) newListSize() listSize {
	return listSize{maxItems: cmp.Or(t.MaxItems, maxItems), maxBytes: cmp.Or(t.MaxItemBytes, maxItemBytes)}
}

// add counts an item. More than the bounds is an error.
func (s *listSize) add(item proto.Message) error {
	s.items++
	s.bytes += proto.Size(item)
	return s.check(s.items, s.bytes)
}

// check returns an error if so many items, of so many bytes, are more than the bounds.
func (s *listSize) check(items, bytes int) error {
	if items > s.maxItems || bytes > s.maxBytes {
		return fmt.Errorf("the daemon sends more than %d items, or %d MiB: select fewer with --namespace, or check what listens there", s.maxItems, s.maxBytes>>20)
	}
	return nil
}

// remove forgets an item.
func (s *listSize) remove(item proto.Message) {
	s.items--
	s.bytes -= proto.Size(item)
}
