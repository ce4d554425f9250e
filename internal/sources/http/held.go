package http

import (
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// held is an origin with nothing but the reason why it is held. What it had before stays with those who get the set.
func held(name, why string) *manifest.Origin {
	return &manifest.Origin{
		Name: name, Held: true, ObjectsUnknown: true, Findings: []manifest.Finding{{Severity: manifest.Error, Message: why}},
	}
}

// missing holds the origin of an item that may be there or not.
func missing(old manifest.Item, why string) manifest.Item {
	if isHeldFor(old.Origin, why) {
		return old
	}
	return manifest.Item{Origin: held(old.Origin.Name, why)}
}

// noted is items with one for the response as a whole that tells why it isn't used, or not in full.
func (c *content) noted(items []manifest.Item, why string) []manifest.Item {
	i := slices.IndexFunc(items, func(item manifest.Item) bool { return item.Origin.Name == c.opts.Origin })
	if i >= 0 && items[i].Origin.Held {
		return items
	}
	note := held(c.opts.Origin, why)
	if i >= 0 {
		note.Findings = slices.Concat(note.Findings, items[i].Origin.Findings)
		items = slices.Clone(items)
		items[i] = manifest.Item{Origin: note}
		return items
	}
	if old, ok := byName(c.items)[c.opts.Origin]; ok && isHeldFor(old.Origin, why) {
		note = old.Origin
	}
	return append(slices.Clip(items), manifest.Item{Origin: note})
}

// isHoldable tells whether an item is to be held when it is missing: it is an object's, of which there is something to hold.
func (c *content) isHoldable(item manifest.Item) bool {
	return !item.Nameless && item.Origin.Name != c.opts.Origin && (item.Origin.Held || hasContent(item.Origin))
}

// isHeldFor tells whether this is why an origin is held.
func isHeldFor(o *manifest.Origin, why string) bool {
	return o.Held && len(o.Findings) == 1 && o.Findings[0].Message == why
}

// isBad tells whether an origin is held for what stands in it.
func isBad(o *manifest.Origin) bool {
	return o.Held && !slices.ContainsFunc([]string{whyMissing, whyCut, whyPending, whyYAML, whyStrict}, func(why string) bool {
		return isHeldFor(o, why)
	})
}

func hasContent(o *manifest.Origin) bool { return len(o.Pods)+len(o.Objects) > 0 }

func byName(items []manifest.Item) map[string]manifest.Item {
	m := make(map[string]manifest.Item, len(items))
	for _, item := range items {
		m[item.Origin.Name] = item
	}
	return m
}
