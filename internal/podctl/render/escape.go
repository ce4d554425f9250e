package render

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// safe reports whether a rune may reach the terminal unescaped. Runes that aren't printable can move the cursor, set
// a colour, ring, or reorder text: the C0 and C1 control characters, DEL, and the invisible and bidirectional format
// characters. Unassigned characters count as unsafe. So do letters and marks that no terminal shows: two names that
// differ only in these look the same.
func safe(r rune) bool { return unicode.IsPrint(r) && !invisible(r) }

// invisible reports whether a rune that Unicode counts as a letter, mark or symbol has no shape of its own.
func invisible(r rune) bool {
	const brailleBlank = 0x2800
	if r < unicode.MaxLatin1 {
		return false
	}
	return r == brailleBlank || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Escape makes s one harmless line: it writes every unsafe rune and every byte that isn't UTF-8 as a Go escape. The
// result is for reading only, as a backslash in s isn't doubled.
func Escape(s string) string { return escape(s, func(r rune) bool { return !safe(r) }, goEscape) }

// escapeLines is Escape for a text of several lines, which may have tabs.
func escapeLines(s string) string {
	return escape(s, func(r rune) bool { return !safe(r) && r != '\n' && r != '\t' }, goEscape)
}

// escapeJSON makes a JSON text harmless without changing its meaning. It keeps line ends: within a string JSON
// escapes them itself. Other unsafe runes only occur in strings.
func escapeJSON(s string) string {
	return escape(s, func(r rune) bool { return !safe(r) && r != '\n' }, func(r rune, _ string) string {
		if hi, lo := utf16.EncodeRune(r); hi != unicode.ReplacementChar {
			return hexEscape('u', hi, 4) + hexEscape('u', lo, 4)
		}
		return hexEscape('u', r, 4)
	})
}

// escapeJSONAsYAML is escapeJSON for a text that is read as YAML, which doesn't accept surrogate pairs.
func escapeJSONAsYAML(s string) string {
	return escape(s, func(r rune) bool { return !safe(r) && r != '\n' }, func(r rune, _ string) string {
		return hexEscape('U', r, 8)
	})
}

// isSafe reports whether a text of several lines, tabs included, needs no escaping.
func isSafe(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) && r != '\n' && r != '\t' })
}

// escape replaces unsafe runes and bytes that aren't UTF-8. The replacement gets the rune (RuneError for a byte that
// isn't UTF-8) and its bytes.
func escape(s string, unsafe func(rune) bool, replacement func(r rune, raw string) string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unsafe) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if raw := s[:n]; unsafe(r) || r == utf8.RuneError && n == 1 {
			b.WriteString(replacement(r, raw))
		} else {
			b.WriteString(raw)
		}
		s = s[n:]
	}
	return b.String()
}

// goEscape writes one rune, or one stray byte, as strconv.QuoteToASCII does.
func goEscape(_ rune, raw string) string {
	quoted := strconv.QuoteToASCII(raw)
	return quoted[1 : len(quoted)-1]
}

func hexEscape(letter byte, r rune, digits int) string {
	hex := strconv.FormatInt(int64(r), 16)
	return `\` + string(letter) + strings.Repeat("0", digits-len(hex)) + hex
}
