package render_test

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/hostiletext"
	"github.com/podstream/podstream/internal/podctl/render"
)

// textOf writes text in pieces of a size.
func textOf(t *testing.T, text string, size int) string {
	t.Helper()
	var b strings.Builder
	w := &render.Text{Out: &b}
	for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
		if n, err := w.Write([]byte(rest[:min(size, len(rest))])); n != min(size, len(rest)) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A text is the same however it is split: colours pass and end with their line, and nothing else does that a terminal acts on.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                                       "",
		"plain ü 漢\ttab\n":                       "plain ü 漢\ttab\n",
		"over\rwritten\r\n":                      `over\rwritten\r` + "\n",
		"\x1b[31mred\x1b[0m\n":                   "\x1b[31mred\x1b[0m\n",
		"\x1b[mplain\n":                          "\x1b[mplain\n",
		"\x1b[1;38;5;200;48;2;1;2;3mx\n":         "\x1b[1;38;5;200;48;2;1;2;3mx\x1b[0m\n",
		"\x1b[31mtwo\nlines":                     "\x1b[31mtwo\x1b[0m\nlines",
		"\x1b[31mopen":                           "\x1b[31mopen\x1b[0m",
		"\x1b[0;31mopen":                         "\x1b[0;31mopen\x1b[0m",
		"\x1b[8mhidden":                          `\x1b[8mhidden`,
		"\x1b[5mblink":                           `\x1b[5mblink`,
		"\x1b[1;8mhidden":                        `\x1b[1;8mhidden`,
		"\x1b[38mx":                              `\x1b[38mx`,
		"\x1b[38;5mx":                            `\x1b[38;5mx`,
		"\x1b[38;2;1;2mx":                        `\x1b[38;2;1;2mx`,
		"\x1b[38;5;256mx":                        `\x1b[38;5;256mx`,
		"\x1b[38:5:1mx":                          `\x1b[38:5:1mx`,
		"\x1b[?25lx":                             `\x1b[?25lx`,
		"\x1b[2J":                                `\x1b[2J`,
		"\x1b]0;title\a":                         `\x1b]0;title\a`,
		"\x1b":                                   `\x1b`,
		"\x1b[":                                  `\x1b[`,
		"\x1b[31":                                `\x1b[31`,
		"\x1b\x1b[31mx":                          `\x1b` + "\x1b[31mx\x1b[0m",
		"\x1b[" + strings.Repeat("1;", 20) + "m": `\x1b[` + strings.Repeat("1;", 20) + "m",
		"\u009b31m\u202e\u200b":                  `\u009b31m\u202e\u200b`,
		"cut \xe2\x82":                           `cut \xe2\x82`,
		"\xe2\x82\n":                             `\xe2\x82` + "\n",
	} {
		for size := 1; size <= 8; size++ {
			if got := textOf(t, in, size); got != want {
				t.Errorf("%q in pieces of %d bytes is %q, want %q", in, size, got, want)
			}
		}
	}
}

func TestHostileText(t *testing.T) {
	for _, s := range hostiletext.Named() {
		got := textOf(t, s.Text, 3)
		for _, colour := range []string{"\x1b[31m", "\x1b[30;40m", "\x1b[0m"} {
			got = strings.ReplaceAll(got, colour, "")
		}
		if r, at := hostiletext.Find(got, "\n\t"); at >= 0 {
			t.Errorf("%s: %U passes in %q", s.Name, r, got)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range hostiletext.Strings() {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, size int) {
		size = max(1, min(size, 100))
		got := textOf(t, s, size)
		if whole := textOf(t, s, len(s)+1); got != whole {
			t.Errorf("in pieces of %d bytes %q, at once %q", size, got, whole)
		}
		if r, at := hostiletext.Find(got, "\n\t\x1b"); at >= 0 {
			t.Errorf("%U passes in %q", r, got)
		}
		if strings.Count(got, "\x1b") != strings.Count(got, "\x1b[") {
			t.Errorf("an escape character passes in %q", got)
		}
	})
}
