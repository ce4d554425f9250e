package http

import (
	"log/slog"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// maxLogged is how many findings one reading puts into the log. One item has fewer.
const maxLogged = 50

// logFindings writes the findings of the items that didn't have them before, one line for each, and which items are well again. What
// a finding quotes of the body may be a secret, and stays out of the log; `podctl sources` shows it to those who may see it.
func logFindings(log *slog.Logger, before, now []manifest.Item) {
	former, there := byName(before), byName(now)
	logged, left := 0, 0
	// room tells whether so many lines more may be written.
	room := func(lines int) bool {
		if logged += lines; logged > maxLogged {
			left++
		}
		return logged <= maxLogged
	}
	for _, item := range now {
		var old manifest.Origin
		if o := former[item.Origin.Name].Origin; o != nil {
			old = *o
		}
		if !slices.Equal(old.Findings, item.Origin.Findings) && !isHeldFor(item.Origin, whyMissing) && room(len(item.Origin.Findings)) {
			logItem(log, item.Origin)
		}
		if isBad(&old) && !item.Origin.Held && room(1) {
			log.Info("Manifest can be used again", "item", item.Origin.Name)
		}
	}
	for _, item := range before {
		if _, ok := there[item.Origin.Name]; !ok && isBad(item.Origin) && room(1) {
			log.Info("Manifest that couldn't be used is gone", "item", item.Origin.Name)
		}
	}
	if left > 0 {
		log.Warn("More items have changed findings", "items", left)
	}
	switch n, old := countMissing(now), countMissing(before); {
	case n > 0 && n != old:
		log.Warn("Items that can't be read may be those that are missing; these stay as they were", "missing", n)
	case n == 0 && old > 0:
		log.Info("No item is missing any more beside one that can't be read")
	}
}

func logItem(log *slog.Logger, o *manifest.Origin) {
	for _, f := range o.Findings {
		f = f.Redacted()
		attrs := []any{"item", o.Name, "field", f.Field, "reason", f.Message}
		if f.Severity == manifest.Error {
			log.Warn("Manifest can't be used", append(attrs, "kept", "last good version stays")...)
		} else {
			log.Info("Manifest has a warning", attrs...)
		}
	}
}

// isBad tells whether an origin is held for what stands in it.
func isBad(o *manifest.Origin) bool { return o.Held && !isHeldFor(o, whyMissing) }

func countMissing(items []manifest.Item) int {
	n := 0
	for _, item := range items {
		if isHeldFor(item.Origin, whyMissing) {
			n++
		}
	}
	return n
}
