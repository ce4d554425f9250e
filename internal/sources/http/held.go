package http

import (
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// held returns an origin with only the reason why it is held. The merge keeps its pods.
func held(name, why string) *manifest.Origin {
	return &manifest.Origin{
		Name: name, Held: true, ObjectsUnknown: true, Findings: []manifest.Finding{{Severity: manifest.Error, Message: why}},
	}
}

// missing holds the origin of an item that may or may not exist.
func missing(old manifest.Item, why string) manifest.Item {
	if isHeldFor(old.Origin, why) {
		return old
	}
	return manifest.Item{Origin: held(old.Origin.Name, why)}
}

// noted adds an item for the response as a whole that has the reason why it isn't used, or not in full.
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

// isHoldable reports whether an item is held when it is missing: it is one of an object, of which something is known.
func (c *content) isHoldable(item manifest.Item) bool {
	return !item.Nameless && item.Origin.Name != c.opts.Origin && (item.Origin.Held || hasContent(item.Origin))
}

// isHeldFor reports whether an origin is held for that reason.
func isHeldFor(o *manifest.Origin, why string) bool {
	return o.Held && len(o.Findings) == 1 && o.Findings[0].Message == why
}

// isBad reports whether an origin is held for its own content.
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
