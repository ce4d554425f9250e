package http

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// saying is the digest of what items mean: without comments and the order of keys, so that a server that generates
// its body each time, perhaps with the time of day in a comment, can be believed.
func saying(items ...manifest.Item) [sha256.Size]byte {
	h := sha256.New()
	for _, item := range items {
		fmt.Fprintf(h, "%q %v\n", item.Origin.Name, item.Origin.Held)
		for _, p := range item.Origin.Pods {
			fmt.Fprintf(h, "%q %q %q\n", p.UID, p.SpecDigest, p.StatusDigest)
		}
		for _, o := range item.Origin.Objects {
			fmt.Fprintf(h, "%q\n", o.Digest)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// withhold returns what next has while it isn't known whether its body was complete: new items are there, and items
// that the body leaves out or changes stay. Before the first body nothing is known of previous items, so the whole
// source is held.
func (c *content) withhold(next *content, says [sha256.Size]byte) []manifest.Item {
	items := slices.Clone(next.items)
	places := make(map[string]int, len(items))
	for i, item := range items {
		places[item.Origin.Name] = i
	}
	withheld := c.sum == [sha256.Size]byte{}
	for _, old := range c.base {
		switch i, ok := places[old.Origin.Name]; {
		case !ok && c.isHoldable(old):
			items = append(items, missing(old, whyPending))
			withheld = true
		case ok && items[i].Origin != old.Origin && hasContent(old.Origin) && saying(items[i]) != saying(old):
			items[i] = old
			withheld = true
		}
	}
	if !withheld {
		return next.items
	}
	next.good, next.pending, next.base = false, says, items
	return c.noted(items, whyYAML)
}
