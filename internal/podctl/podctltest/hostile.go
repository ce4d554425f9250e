package podctltest

import (
	"testing"

	"github.com/podstream/podstream/internal/hostiletext"
)

// Hostile has characters that a terminal acts on: a title, a colour by C0 and C1 introducers, a bell, line ends, DEL,
// a bidirectional override, an invisible tag character outside the BMP; and a harmless character that must stay.
const Hostile = "\x1b]0;pwned\a\x1b[31m\u009b31m\r\nnext\tline\x7f\u202etxt\U000e0041ü"

// CheckHarmless fails the test if a terminal acts on text, or doesn't show all of it. Line ends are allowed.
func CheckHarmless(t *testing.T, what, text string) {
	t.Helper()
	if r, at := hostiletext.Find(text, "\n"); at >= 0 {
		t.Errorf("%s lets %U through, after %q", what, r, text[max(0, at-200):at])
	}
}
