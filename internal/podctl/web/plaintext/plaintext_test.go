package plaintext_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
)

// TestLine: whatever the text, the line is harmless and bounded.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "": "", "größer": "größer", "a\nb": `a\nb`, "x\u202ey": `x\u202ey`, "\xff": `\xff`, "0123456789abcdef": "0123456789…",
		"012345678ü": "012345678…", "\x1b\x1b\x1b": `\x1b\x1b\x…`,
	} {
		if got := plaintext.Line(text, 10); got != want {
			t.Errorf("%q becomes %q; want %q", text, got, want)
		}
	}
	podctltest.CheckHarmless(t, "a line", plaintext.Line(podctltest.Hostile, 1000))
	rapid.Check(t, func(r *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(r, "text"))
		if got := plaintext.Line(text, 20); len(got) > 20+len("…") || !utf8.ValidString(got) {
			r.Fatalf("%q becomes %q", text, got)
		}
	})
}

// TestLines: line ends and tabs stay, and the number of lines is bounded too.
func TestLines(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		cut        bool
	}{
		{"a\n\tb\n", "a\n\tb\n", false},
		{"a\r\nb", "a\\r\nb", false},
		{"a\nb\nc\nd", "a\nb\nc\n", true},
		{strings.Repeat("x", 200), strings.Repeat("x", 100), true},
		{strings.Repeat("\x1b", 90), strings.Repeat(`\x1b`, 25), true},
		{"", "", false},
	} {
		if got, cut := plaintext.Lines(tc.text, 100, 3); got != tc.want || cut != tc.cut {
			t.Errorf("%q becomes %q, cut: %v; want %q, %v", tc.text, got, cut, tc.want, tc.cut)
		}
	}
	got, _ := plaintext.Lines(podctltest.Hostile, 1000, 10)
	podctltest.CheckHarmless(t, "lines", strings.ReplaceAll(got, "\t", ""))
}
