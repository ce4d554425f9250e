package http

import (
	"log/slog"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// maxLogged bounds the findings of one reading that are logged. One item has fewer.
const maxLogged = 50

// logFindings logs the new findings of the items, one line for each and the errors first, and the items that became
// good. Quotes of the body may be secret and aren't logged; `podctl sources` shows them to authorized callers. Items
// that are held because of others are logged in one line, and not at all if the next response decides on them.
func logFindings(log *slog.Logger, before, now []manifest.Item) {
	former, there := byName(before), byName(now)
	logged, left := 0, 0
	// fits reports whether so many more lines may be written.
	fits := func(lines int) bool {
		if logged += lines; logged > maxLogged {
			left++
		}
		return logged <= maxLogged
	}
	for _, item := range badFirst(now) {
		var old manifest.Origin
		if o := former[item.Origin.Name].Origin; o != nil {
			old = *o
		}
		reported := item.Origin.Held && !isBad(item.Origin) || slices.Equal(old.Findings, item.Origin.Findings)
		if !reported && fits(len(item.Origin.Findings)) {
			logItem(log, item.Origin)
		}
		if isBad(&old) && !item.Origin.Held && fits(1) {
			log.Info("Manifest can be used again", "item", item.Origin.Name)
		}
	}
	for _, item := range before {
		if _, ok := there[item.Origin.Name]; !ok && isBad(item.Origin) && fits(1) {
			log.Info("Manifest that couldn't be used is gone", "item", item.Origin.Name)
		}
	}
	if left > 0 {
		log.Warn("More items have changed findings", "items", left)
	}
	if n := count(now, whyStrict); n > 0 && n != count(before, whyStrict) {
		log.Warn("Items stay as they were, as another one can't be used", "items", n)
	}
	switch n, old := count(now, whyMissing, whyCut), count(before, whyMissing, whyCut); {
	case n > 0 && n != old:
		log.Warn("Unreadable items may be the missing ones; these stay as they were", "missing", n)
	case n == 0 && old > 0:
		log.Info("No item is missing beside an unreadable one any more")
	}
}

func logItem(log *slog.Logger, o *manifest.Origin) {
	for _, f := range o.Findings {
		f = f.Redacted()
		attrs := []any{"item", o.Name, "field", f.Field, "reason", f.Message}
		switch f.Severity {
		case manifest.Error:
			log.Warn("Manifest can't be used", append(attrs, "kept", "last good version stays")...)
		case manifest.Ignored:
			log.Info("Manifest is ignored", attrs...)
		default:
			log.Info("Manifest has a warning", attrs...)
		}
	}
}

// badFirst returns the items, the unusable ones first.
func badFirst(items []manifest.Item) []manifest.Item {
	return slices.SortedStableFunc(slices.Values(items), func(a, b manifest.Item) int {
		switch isBadA, isBadB := isBad(a.Origin), isBad(b.Origin); {
		case isBadA == isBadB:
			return 0
		case isBadA:
			return -1
		default:
			return 1
		}
	})
}

// count counts the items that are held for one of these reasons.
func count(items []manifest.Item, why ...string) int {
	n := 0
	for _, item := range items {
		if slices.ContainsFunc(why, func(why string) bool { return isHeldFor(item.Origin, why) }) {
			n++
		}
	}
	return n
}
