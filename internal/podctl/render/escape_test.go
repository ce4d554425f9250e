package render_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/render"
)

func TestEscapeText(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"plain ü … 漢字":          "plain ü … 漢字",
		"\x1b[31m":              `\x1b[31m`,
		"a\nb\tc\r\v\f\a\b\x00": `a\nb\tc\r\v\f\a\b\x00`,
		"\u009b31m":             `\u009b31m`,
		"\x7f":                  `\x7f`,
		"\u202egpj.exe":         `\u202egpj.exe`,
		"\U000e0041":            `\U000e0041`,
		"bad \xff byte":         `bad \xff byte`,
		"a replaced \ufffd":     "a replaced \ufffd",
		`back\slash "quote"`:    `back\slash "quote"`,
	} {
		if got := render.Escape(in); got != want {
			t.Errorf("escapeText(%q) = %q, want %q", in, got, want)
		}
	}
}

// For every string, both kinds of documents are harmless and keep its meaning.
func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{podctltest.Hostile, "", "plain", "a\nb", "\ttab\n  indented", "key: value", "- item", "---", "\u2028\u0085", "\U0001f600\U0010fffd"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return // JSON can't hold such strings; gRPC refuses them before
		}
		for _, output := range []render.Format{render.JSONFormat, render.YAMLFormat} {
			for _, stream := range []bool{true, false} {
				var b strings.Builder
				docs := render.Documents{Out: &b, Format: output, Stream: stream}
				if err := docs.Print(map[string]string{"text": s}); err != nil {
					t.Fatal(err)
				}
				if output == render.JSONFormat {
					podctltest.CheckHarmless(t, "JSON", b.String())
				} else {
					podctltest.CheckHarmless(t, "YAML", strings.ReplaceAll(b.String(), "\t", ""))
				}
				var got struct{ Text string }
				var err error
				if output == render.JSONFormat {
					err = json.Unmarshal([]byte(b.String()), &got)
				} else {
					err = yaml.Unmarshal([]byte(b.String()), &got)
				}
				if err != nil || got.Text != s {
					t.Fatalf("%s: %q came back as %q, error %v, from:\n%s", output, s, got.Text, err, b.String())
				}
			}
		}
	})
}
