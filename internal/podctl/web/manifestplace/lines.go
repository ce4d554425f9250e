package manifestplace

import (
	"strings"
	"unicode/utf16"

	"github.com/podstream/podstream/internal/podctl/render"
)

const (
	// around is how many lines are shown before and after the mistake.
	around = 3
	// maxLine is how many characters of a line are shown.
	maxLine = 200
)

// Line is a line of a manifest, harmless to show.
type Line struct {
	Number int
	Text   string
	// Marked: the mistake is in this line, from From to before To, in UTF-16 units of Text. Equal: the whole line.
	Marked   bool
	From, To int
}

// Around returns the lines about a place. The zero place has none.
func (m *Manifest) Around(p Place) []Line {
	if p.Line < 1 || p.Line > len(m.lines) {
		return nil
	}
	var out []Line
	for number := max(p.Line-around, 1); number <= min(p.Line+around, len(m.lines)); number++ {
		text := strings.TrimSuffix(string(m.lines[number-1]), "\r")
		if number == len(m.lines) && text == "" {
			break // What follows the last line end is no line.
		}
		out = append(out, line(number, text, p))
	}
	return out
}

func line(number int, text string, p Place) Line {
	runes := []rune(text)
	runes = runes[:min(len(runes), maxLine)]
	out := Line{Number: number, Text: render.Escape(string(runes)), Marked: number == p.Line}
	if !out.Marked || p.End == 0 {
		return out
	}
	from := min(max(p.Column-1, 0), len(runes))
	to := min(max(p.End-1, from), len(runes))
	out.From = units(render.Escape(string(runes[:from])))
	out.To = out.From + units(render.Escape(string(runes[from:to])))
	return out
}

// units returns the length of a text in JavaScript.
func units(text string) int { return len(utf16.Encode([]rune(text))) }
