package http

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// Why an origin is held whose item isn't at fault.
const (
	whyMissing = "it isn't in the response any more, unless it is one of the items that can't be read: it stays until they can"
	whyStrict  = "it stays as it was: with strict reading, a response with an item that can't be used isn't used at all"
	whyUnused  = "with strict reading, one item that can't be used holds all of them: nothing of this response is used until it can"
)

// content is what the source has: what came of the last body that could be used. It is immutable.
type content struct {
	opts manifest.Options
	// items are handed over. base is what they were before anything was held for another item's sake.
	items, base []manifest.Item
	// sum is that of the body, of which all was good if good.
	sum  [sha256.Size]byte
	good bool
}

// newContent is the content before the first body. known are the names of the origins that the source had in an earlier life.
func newContent(opts manifest.Options, known []string) *content {
	c := &content{opts: opts}
	why := whyMissing
	if opts.Strict {
		why = whyStrict
	}
	for _, name := range known {
		c.base = append(c.base, manifest.Item{Origin: held(name, why)})
	}
	return c
}

// origins are those of the set. They are the same pointers where nothing changed.
func (c *content) origins() []*manifest.Origin {
	origins := make([]*manifest.Origin, len(c.items))
	for i, item := range c.items {
		origins[i] = item.Origin
	}
	return origins
}

// take is the content after a body. It fails if nothing of the body can be used.
func (c *content) take(body []byte) (*content, error) {
	sum := sha256.Sum256(body)
	if sum == c.sum {
		return c, nil
	}
	items := manifest.ParseItems(body, c.opts, c.items)
	if err := unusable(items); err != nil {
		return c, err
	}
	next := &content{opts: c.opts, sum: sum}
	next.good = !slices.ContainsFunc(items, func(i manifest.Item) bool { return i.Origin.Held })
	switch {
	case next.good:
		next.items, next.base = items, items
	case c.opts.Strict:
		next.items, next.base = c.unchanged(items), c.base
	default:
		next.items = c.mixed(items)
		next.base = next.items
	}
	return next, nil
}

// unusable is why nothing can be used of a body that has items which may be any object's.
func unusable(items []manifest.Item) error {
	var first *manifest.Item
	for i, item := range items {
		if !item.Origin.Held && len(item.Origin.Pods)+len(item.Origin.Objects) > 0 {
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

// mixed is what a body gives of which some items are bad: these are held, and while one may be any object, so is what is missing.
func (c *content) mixed(items []manifest.Item) []manifest.Item {
	c.keepObjects(items)
	if !slices.ContainsFunc(items, func(i manifest.Item) bool { return i.Nameless }) {
		return items
	}
	there := byName(items)
	mixed := slices.Clone(items)
	for _, old := range c.base {
		if _, ok := there[old.Origin.Name]; !ok && !old.Nameless && !isEmpty(old.Origin) {
			mixed = append(mixed, missing(old))
		}
	}
	return mixed
}

// unchanged is what a strict reader has of a body with a bad item: all as in the base, with the findings of what is bad.
func (c *content) unchanged(items []manifest.Item) []manifest.Item {
	c.keepObjects(items)
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
	if _, ok := byName(all)[c.opts.Origin]; ok {
		return all
	}
	note, ok := byName(c.items)[c.opts.Origin]
	if !ok || !isHeldFor(note.Origin, whyUnused) {
		note = manifest.Item{Origin: held(c.opts.Origin, whyUnused)}
	}
	return append(all, note)
}

// keepObjects gives the items that are held the objects that they had. (The pods that they had are kept by the merge, which knows
// those of earlier lives as well.)
func (c *content) keepObjects(items []manifest.Item) {
	former := byName(c.items)
	for _, item := range items {
		// One that is the same as before was handed over, and has them.
		if old := former[item.Origin.Name].Origin; old != nil && old != item.Origin && item.Origin.Held && len(item.Origin.Objects) == 0 {
			item.Origin.Objects = old.Objects
		}
	}
}

// missing holds the origin of an item that may be there or not.
func missing(old manifest.Item) manifest.Item {
	if isHeldFor(old.Origin, whyMissing) {
		return old
	}
	o := held(old.Origin.Name, whyMissing)
	o.Objects = old.Origin.Objects
	return manifest.Item{Origin: o}
}

// held is an origin with nothing but the reason why it is held.
func held(name, why string) *manifest.Origin {
	return &manifest.Origin{Name: name, Held: true, Findings: []manifest.Finding{{Severity: manifest.Error, Message: why}}}
}

// isHeldFor tells whether this is why an origin is held.
func isHeldFor(o *manifest.Origin, why string) bool {
	return o.Held && len(o.Findings) == 1 && o.Findings[0].Message == why
}

// isEmpty tells whether there is nothing to hold: an origin of warnings.
func isEmpty(o *manifest.Origin) bool { return !o.Held && len(o.Pods)+len(o.Objects) == 0 }

func byName(items []manifest.Item) map[string]manifest.Item {
	m := make(map[string]manifest.Item, len(items))
	for _, item := range items {
		m[item.Origin.Name] = item
	}
	return m
}
