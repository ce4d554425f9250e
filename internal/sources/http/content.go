package http

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// Why an origin is held though its item isn't the cause.
const (
	whyMissing = "it isn't in the response any more, unless it is one of the items that can't be read: it stays until they can"
	whyCut     = "it isn't in the response any more, which may be cut off, as its last item can't be used: it stays until that can"
	whyPending = "it isn't in the response any more, which is YAML and may be cut off: it goes when the next answer says the same"
	whyYAML    = "this is YAML, and may be cut off: what it leaves out or changes counts when the next answer says the same"
	whyStrict  = "it stays as it was: with strict reading, a response with an item that can't be used isn't used at all"
	whyUnused  = "with strict reading, one item that can't be used holds all of them: nothing of this response is used until it can"
)

// content is what the source has: the result of the last usable body. It is immutable.
type content struct {
	opts manifest.Options
	// items are the ones to send. base is what they were before any was held because of another item.
	items, base []manifest.Item
	// sum is the digest of the body, all of which was good and is used, if good is set.
	sum  [sha256.Size]byte
	good bool
	// pending is the digest of the last body's meaning while it isn't used, or not in full, until the next body has
	// the same. Zero: it is used.
	pending [sha256.Size]byte
}

// newContent returns the content before the first body. known are the names of the origins from before the restart.
func newContent(opts manifest.Options, known []string) *content {
	c := &content{opts: opts}
	why := whyMissing
	if opts.Strict {
		why = whyStrict
	}
	known = slices.Clone(known)
	slices.Sort(known)
	for _, name := range slices.Compact(known) {
		c.base = append(c.base, manifest.Item{Origin: held(name, why)})
	}
	return c
}

// origins returns the origins of the set. Unchanged ones are the same pointers.
func (c *content) origins() []*manifest.Origin {
	origins := make([]*manifest.Origin, len(c.items))
	for i, item := range c.items {
		origins[i] = item.Origin
	}
	return origins
}

func (c *content) isPending() bool { return c.pending != [sha256.Size]byte{} }

// take returns the content after a body. It returns an error if nothing of the body can be used.
func (c *content) take(b body) (*content, error) {
	sum := sha256.Sum256(b.text)
	if sum == c.sum && !c.isPending() {
		return c, nil
	}
	items := manifest.ParseItems(b.text, c.opts, c.items)
	if err := unusable(items); err != nil {
		if b.html {
			err = errHTML
		}
		return c, err
	}
	says := saying(items...)
	sure := b.isJSON || says == c.pending
	if b.endless && !sure {
		next := *c
		next.pending = says
		return &next, errEndless
	}
	next := &content{opts: c.opts, sum: sum}
	next.good = !slices.ContainsFunc(items, func(i manifest.Item) bool { return i.Origin.Held })
	switch {
	case next.good:
		next.items = items
	case c.opts.Strict:
		next.items, next.base = c.unchanged(items), c.base
		return next, nil
	default:
		next.items = c.mixed(items, b.isJSON)
	}
	if !sure {
		next.items = c.withhold(next, says)
	}
	if next.base == nil {
		next.base = next.items
	}
	return next, nil
}

// unusable returns why nothing of a body can be used if its bad items may be any object.
func unusable(items []manifest.Item) error {
	var first *manifest.Item
	for i, item := range items {
		if !item.Origin.Held && hasContent(item.Origin) {
			return nil
		}
		if item.Nameless && first == nil {
			first = &items[i]
		}
	}
	if first == nil {
		return nil
	}
	for _, f := range first.Origin.Findings {
		if f.Severity == manifest.Error {
			f = f.Redacted()
			if f.Field != "" {
				f.Message = f.Field + ": " + f.Message
			}
			return fmt.Errorf("nothing in the body can be used: %s", f.Message)
		}
	}
	return errors.New("nothing in the body can be used")
}

// mixed returns the items of a body some of which are bad. These are held, and if one may be any object, so are all
// missing items. Missing items are also held while the last item of YAML is bad, as others may have followed it.
func (c *content) mixed(items []manifest.Item, isJSON bool) []manifest.Item {
	var why string
	switch {
	case slices.ContainsFunc(items, func(i manifest.Item) bool { return i.Nameless }):
		why = whyMissing
	case !isJSON && c.endsBadly(items):
		why = whyCut
	default:
		return items
	}
	there := byName(items)
	mixed := slices.Clone(items)
	for _, old := range c.base {
		if _, ok := there[old.Origin.Name]; !ok && c.isHoldable(old) {
			mixed = append(mixed, missing(old, why))
		}
	}
	return mixed
}

// endsBadly reports whether the last item can't be used.
func (c *content) endsBadly(items []manifest.Item) bool {
	for _, item := range slices.Backward(items) {
		// A finding on the response as a whole comes last.
		if item.Origin.Name != c.opts.Origin {
			return item.Origin.Held
		}
	}
	return false
}

// unchanged returns the items of a body with a bad item under Strict: all as in the base, with the findings of the
// bad ones.
func (c *content) unchanged(items []manifest.Item) []manifest.Item {
	there, known := byName(items), byName(c.base)
	all := slices.Clone(c.base)
	for i, old := range all {
		if item, ok := there[old.Origin.Name]; ok && item.Origin.Held {
			all[i] = item
		}
	}
	for _, item := range items {
		if _, ok := known[item.Origin.Name]; !ok && item.Origin.Held {
			all = append(all, item)
		}
	}
	return c.noted(all, whyUnused)
}
