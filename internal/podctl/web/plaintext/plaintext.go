package plaintext

import (
	"strings"
	"unicode/utf8"

	"github.com/podstream/podstream/internal/podctl/render"
)

// The bounds of texts in bytes.
const (
	// Name is for the names of pods, containers, sources and files.
	Name = 512
	// Message is for errors and messages.
	Message = 4 << 10
)

const ellipsis = "…"

// Line returns the text as one harmless line of at most max bytes, and an ellipsis if it is cut.
func Line(text string, most int) string {
	short, cut := clip(text, most)
	escaped, cutAgain := clip(render.Escape(short), most)
	if cut || cutAgain {
		escaped += ellipsis
	}
	return escaped
}

// Lines returns the text with its line ends and tabs, and otherwise harmless. It is cut after so many bytes and lines.
func Lines(text string, most, lines int) (out string, cut bool) {
	text, cut = clip(text, most)
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		if n == lines || b.Len() > most {
			return b.String(), true
		}
		n++
		body, ended := strings.CutSuffix(line, "\n")
		for i, part := range strings.Split(body, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(render.Escape(part))
		}
		if ended {
			b.WriteByte('\n')
		}
	}
	out, cutAgain := clip(b.String(), most)
	return out, cut || cutAgain
}

// clip returns at most so many bytes of the text, whole characters, and reports whether it is shorter.
func clip(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}
