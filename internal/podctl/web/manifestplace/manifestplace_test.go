package manifestplace_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/manifestplace"
)

const sample = `# A comment
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    example.com/a: "x"
spec:
  containers:
  - name: app
    image: nginx:latest
    imagee: oops
  - {name: side, image: "quoted"}
  initContainers:
  - name: init
    command:
    - sh
    - |
      long
      text
---
# The second document.

---
{"kind": "Pod", "metadata": {"name": "json"},
 "spec": {"containers": [{"name": "a", "image": 7}]}}
--- {kind: Pod, spec: {x: y}}
`

// TestFind: the place of a field is that of its key and value, or of the last one on its path that exists.
func TestFind(t *testing.T) {
	m := manifestplace.New([]byte(sample))
	for _, tc := range []struct {
		document             int
		field, message, want string
	}{
		{1, "metadata.name", "", "  «name: web»"},
		{1, "spec.containers[0].image", "", "    «image: nginx:latest»"},
		{1, "spec.containers[0].imagee", "unknown field", "    «imagee: oops»"},
		{1, "spec.containers[1].image", "", `  - {name: side, «image: "quoted"»}`},
		{1, "spec.containers[1].ports", "required", `[  - {name: side, image: "quoted"}]`},
		{1, "spec.containers[7].image", "", "  «containers»:"},
		{1, "spec.restartPolicy", "required", "«spec»:"},
		{1, "metadata.annotations[example.com/a]", "", `    «example.com/a: "x"»`},
		{1, "metadata.annotations.example.com/a", "", `    «example.com/a: "x"»`},
		{1, "spec.initContainers[0].command[0]", "", "    - «sh»"},
		{1, "spec.initContainers[0].command[1]", "", "    - «|»"},
		{1, "", "it isn't a pod", "[apiVersion: v1]"},
		{2, "metadata.name", "", `{"kind": "Pod", "metadata": {«"name": "json"»},`},
		{2, "spec.containers[0].image", "must be a string", ` "spec": {"containers": [{"name": "a", «"image": 7»}]}}`},
		{3, "spec.x", "", "--- {kind: Pod, spec: {«x: y»}}"},
		{1, "spec.containers[0].image", "it is set twice, again in line 12", "[    imagee: oops]"},
		{0, "", "line 3: this isn't YAML", "[kind: Pod]"},
		{0, "", "the file is empty", ""},
		{0, "", "line 999: no such line", ""},
		{9, "spec", "", ""},
		{1, "spec.containers[", "", "  «containers»:"},
	} {
		got := marked(m.Around(m.Find(tc.document, tc.field, tc.message)))
		if got != tc.want {
			t.Errorf("%d %s (%s) is at %q; want %q", tc.document, tc.field, tc.message, got, tc.want)
		}
	}
}

// marked returns the marked line with its mark.
func marked(lines []manifestplace.Line) string {
	for _, l := range lines {
		if l.Marked {
			if l.From == l.To {
				return "[" + l.Text + "]"
			}
			return l.Text[:l.From] + "«" + l.Text[l.From:l.To] + "»" + l.Text[l.To:]
		}
	}
	return ""
}

// TestAround: at most three lines before and after are shown, harmless, and marked in JavaScript's units.
func TestAround(t *testing.T) {
	m := manifestplace.New([]byte("a: 1\nb: 2\nc: 3\nd: 4\n\"\U0001f600\\e\x1b\": 5\ne: 6\n"))
	lines := m.Around(manifestplace.Place{Line: 4, Column: 1, End: 2})
	if len(lines) != 6 || lines[0].Number != 1 || lines[5].Number != 6 || !lines[3].Marked || lines[3].To != 1 {
		t.Errorf("the lines are %+v", lines)
	}
	l := m.Around(manifestplace.Place{Line: 5, Column: 2, End: 3})[3]
	if l.From != 1 || l.To != 3 {
		t.Errorf("a character of two units is marked from %d to %d", l.From, l.To)
	}
	if lines := m.Around(manifestplace.Place{Line: 99}); lines != nil {
		t.Errorf("a line that doesn't exist has %v", lines)
	}
	hostile := manifestplace.New([]byte(podctltest.Hostile))
	for _, l := range hostile.Around(manifestplace.Place{Line: 1, Column: 3, End: 9}) {
		podctltest.CheckHarmless(t, "a line", l.Text)
	}
	if place := manifestplace.New([]byte(strings.Repeat("a: b\n", 1<<18))).Find(1, "a", ""); place != (manifestplace.Place{}) {
		t.Errorf("in a manifest of 1.3 MiB there is %v", place)
	}
}

// TestOtherLineBreaks: where YAML counts other lines than an editor, no place is known.
func TestOtherLineBreaks(t *testing.T) {
	for _, between := range []string{"\r", "\u0085", "\u2028", "\u2029", "\r\r\n"} {
		for _, text := range []string{"kind: Pod" + between + "spec: 1\n", between + "spec: 1", "spec: 1" + between} {
			if place := manifestplace.New([]byte(text)).Find(1, "spec", ""); place != (manifestplace.Place{}) {
				t.Errorf("spec in %q is at %v", text, place)
			}
		}
	}
	want := manifestplace.Place{Line: 2, Column: 1, End: 8}
	if place := manifestplace.New([]byte("kind: Pod\r\nspec: 1\r\n")).Find(1, "spec", ""); place != want {
		t.Errorf("with the line ends of Windows, spec is at %v; want %v", place, want)
	}
}

// TestFindAnything: no manifest and no field panics, and a place is always in the manifest.
func TestFindAnything(t *testing.T) {
	fields := rapid.StringMatching(`[a-c.\[\]0-9"]{0,12}`)
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`([ ]{0,4}[a-c]: [a-c{}\[\]&*|"]{0,4}\n){0,8}`))
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "manifest")
		m := manifestplace.New([]byte(text))
		place := m.Find(rapid.IntRange(-1, 3).Draw(t, "document"), fields.Draw(t, "field"), rapid.String().Draw(t, "message"))
		if place.Line < 0 || place.Line > strings.Count(text, "\n")+1 {
			t.Fatalf("the place is %v", place)
		}
		for _, l := range m.Around(place) {
			if l.From > l.To {
				t.Fatalf("the mark is %+v", l)
			}
		}
	})
}
