package hostiletext_test

import (
	"testing"
	"unicode/utf8"

	"github.com/podstream/podstream/internal/hostiletext"
)

// The corpus has 100 different strings, and each class of dangerous characters.
func TestStrings(t *testing.T) {
	names, texts, invalid := map[string]bool{}, map[string]bool{}, 0
	dangerous := map[rune]bool{}
	for _, s := range hostiletext.Named() {
		if s.Text == "" || s.Name == "" || names[s.Name] || texts[s.Text] {
			t.Errorf("%q %q is empty, or there twice", s.Name, s.Text)
		}
		names[s.Name], texts[s.Text] = true, true
		if !utf8.ValidString(s.Text) {
			invalid++
		}
		for _, r := range s.Text {
			dangerous[r] = dangerous[r] || hostiletext.Dangerous(r)
		}
	}
	if len(texts) != 100 || len(hostiletext.Strings()) != 100 || invalid < 5 {
		t.Errorf("%d strings, %d of which aren't UTF-8", len(texts), invalid)
	}
	for _, r := range []rune{
		0, '\a', '\b', '\t', '\n', '\v', '\f', '\r', 0x1b, 0x7f, 0x85, 0x90, 0x9b, 0x9d, 0xad, 0x34f, 0x61c, 0x115f, 0x200b, 0x200d, 0x200e, 0x2028,
		0x2029, 0x202e, 0x2060, 0x2066, 0x2069, 0x2800, 0x3164, 0xfeff, 0xfe0f, 0xfff9, 0xe000, 0xffff, 0xe0072, 0xe0100,
	} {
		if !dangerous[r] {
			t.Errorf("no string has %U, or it isn't dangerous", r)
		}
	}
}

func TestFind(t *testing.T) {
	for text, want := range map[string]int{"": -1, "plain ü … 漢字 \ufffd": -1, "a\nb": -1, "a\tb": 1, "ab\x1b": 2, "ü\xff": 2, "a\u202eb": 1} {
		if _, at := hostiletext.Find(text, "\n"); at != want {
			t.Errorf("%q: at %d, want %d", text, at, want)
		}
	}
	// What the corpus has of these is harmless text.
	harmless := 0
	for _, s := range hostiletext.Strings() {
		if _, at := hostiletext.Find(s, ""); at < 0 {
			harmless++
		}
	}
	if harmless > 25 {
		t.Errorf("%d strings have no dangerous character", harmless)
	}
}
