package file

import (
	"log/slog"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
)

// report logs the findings of a file, one line for each, if they differ from the previous ones. Quotes of the
// manifest may be secret and aren't logged; `podctl sources` shows them to authorized callers.
func report(log *slog.Logger, before []manifest.Finding, now *manifest.Origin) {
	if slices.Equal(before, now.Findings) {
		return
	}
	for _, f := range now.Findings {
		f = f.Redacted()
		attrs := []any{"file", now.Name, "document", f.Document, "field", f.Field, "reason", f.Message}
		switch f.Severity {
		case manifest.Error:
			if now.Held {
				attrs = append(attrs, "kept", "last good version stays")
			}
			log.Warn("Manifest can't be used", attrs...)
		case manifest.Ignored:
			log.Info("File isn't read", "file", now.Name, "reason", f.Message)
		default:
			log.Info("Manifest has a warning", attrs...)
		}
	}
	if hasError(before) && !hasError(now.Findings) {
		log.Info("Manifest can be used again", "file", now.Name)
	}
}

func hasError(findings []manifest.Finding) bool {
	return slices.ContainsFunc(findings, func(f manifest.Finding) bool { return f.Severity == manifest.Error })
}
