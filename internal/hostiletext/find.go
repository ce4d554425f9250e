package hostiletext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dangerous reports whether a terminal acts on the rune, reorders text by it, or doesn't show it: control characters,
// line ends and tabs included, bidirectional and other format characters, line and paragraph separators, characters
// that are ignored in display, blanks that aren't spaces, and characters without a meaning of their own.
func Dangerous(r rune) bool {
	const braillePatternBlank = 0x2800
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == braillePatternBlank:
		return true
	case r < 0x7f: // Most of a text.
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs, unicode.Bidi_Control, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
}

// Find returns the first dangerous rune of a text, except those of allowed, and its position in bytes; -1 if there is none.
// A byte that isn't UTF-8 is dangerous: it is returned as utf8.RuneError.
func Find(text, allowed string) (r rune, at int) {
	for at, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[at:]); n == 1 {
				return r, at
			}
		}
		if Dangerous(r) && !strings.ContainsRune(allowed, r) {
			return r, at
		}
	}
	return 0, -1
}
