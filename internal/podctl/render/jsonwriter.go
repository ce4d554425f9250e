package render

import (
	"io"
	"unicode/utf8"
)

// JSONWriter passes on JSON texts, and writes the characters on which a terminal acts, or which it doesn't show, as JSON's
// escapes. A character may be split between two writes. Bytes that aren't UTF-8, which JSON doesn't have, become U+FFFD.
type JSONWriter struct {
	Out io.Writer
	// rest is the beginning of a character.
	rest []byte
}

// Write implements io.Writer.
func (w *JSONWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	whole := len(text) - partial(text)
	w.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(w.Out, escapeJSON(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// partial returns the length of an incomplete character at the end of text.
func partial(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
