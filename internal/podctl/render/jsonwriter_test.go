package render_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podstream/podstream/internal/hostiletext"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/render"
)

// A JSON text keeps its meaning, however it is split.
func TestJSONWriter(t *testing.T) {
	for _, s := range hostiletext.Strings() {
		if !utf8.ValidString(s) {
			continue
		}
		text, err := json.Marshal([]string{s})
		if err != nil {
			t.Fatal(err)
		}
		for size := 1; size <= 5; size++ {
			var b strings.Builder
			w := &render.JSONWriter{Out: &b}
			for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := w.Write(rest[:min(size, len(rest))]); n != min(size, len(rest)) || err != nil {
					t.Fatal(n, err)
				}
			}
			podctltest.CheckHarmless(t, "JSON", b.String())
			var got []string
			if err := json.Unmarshal([]byte(b.String()), &got); err != nil || len(got) != 1 || got[0] != s {
				t.Errorf("%q in pieces of %d came back as %q, %v", s, size, got, err)
			}
		}
	}
}
