package oci

import (
	"log/slog"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// maxLogged bounds the findings of one artifact that are logged.
const maxLogged = 50

// logFindings logs the findings of origins that changed, one line for each. Quotes of a manifest may be secret and aren't
// logged; `podctl sources` shows them to authorized callers.
func logFindings(log *slog.Logger, before, now []*manifest.Origin) {
	former := map[string]*manifest.Origin{}
	for _, o := range before {
		former[o.Name] = o
	}
	logged, left := 0, 0
	write := func(level func(msg string, args ...any), message string, attrs ...any) {
		if logged++; logged > maxLogged {
			left++
			return
		}
		level(message, attrs...)
	}
	for _, o := range now {
		old := former[o.Name]
		if old == o || old != nil && slices.Equal(old.Findings, o.Findings) {
			continue
		}
		for _, f := range o.Findings {
			f = f.Redacted()
			attrs := []any{"item", o.Name, "document", f.Document, "field", f.Field, "reason", f.Message}
			switch f.Severity {
			case manifest.Error:
				write(log.Warn, "Manifest can't be used", append(attrs, "kept", "last good version stays")...)
			case manifest.Ignored:
				write(log.Info, "File isn't read", "item", o.Name, "reason", f.Message)
			default:
				write(log.Info, "Manifest has a warning", attrs...)
			}
		}
		if old != nil && old.Held && !o.Held {
			write(log.Info, "Manifest can be used again", "item", o.Name)
		}
	}
	if left > 0 {
		log.Warn("More manifests have findings", "items", left)
	}
}
