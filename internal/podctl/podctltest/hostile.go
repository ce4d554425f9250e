package podctltest

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// Hostile has characters that a terminal acts on: a title, a colour by C0 and C1 introducers, a bell, line ends, DEL,
// a bidirectional override, an invisible tag character outside the BMP; and a harmless character that must stay.
const Hostile = "\x1b]0;pwned\a\x1b[31m\u009b31m\r\nnext\tline\x7f\u202etxt\U000e0041ü"

// CheckHarmless fails the test if a terminal acts on text.
func CheckHarmless(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s lets %U through:\n%q", what, r, text)
			return
		}
	}
	if !utf8.ValidString(text) {
		t.Errorf("%s isn't UTF-8: %q", what, text)
	}
}
