package manifest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// nodes is how many values a document has for the parser.
func nodes(n *yaml.Node) int {
	count := 1
	for _, c := range n.Content {
		count += nodes(c)
	}
	return count
}

// TestMarksOutsideText: text in block scalars and quotes doesn't count, and everything does from the first line on
// that isn't simple.
func TestMarksOutsideText(t *testing.T) {
	const text = "{a: [1, 2, 3]}"
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"a block scalar":             {"a:\n  b: |\n    " + text + "\n\n     " + text + "\n  c: >-\n    " + text + "\nd: e\n", 5},
		"in a list":                  {"- a: |-\n    " + text + "\n  b: |+\n    " + text + "\n", 4},
		"quotes":                     {"a: \"\\\"" + text + "\n  \\\\\"\nb: '" + text + "''\n" + text + "'  \n", 2},
		"an empty block scalar":      {"a: |\nb: |\n  " + text + "\n", 2},
		"a comment":                  {"a: b # c: d\n# e: f\n", 3},
		"flow":                       {"a: {b: |\n  c}\nd: |\n  " + text + "\n", 9},
		"an open quote":              {"a: \"b: |\n  " + text + "\n", 7},
		"text behind a quote":        {"a: \"b\" c\nd: |\n  " + text + "\n", 7},
		"an indentation":             {"a: |2\n  " + text + "\n", 6},
		"a blank line that is wider": {"a: |\n         \n  " + text + "\n", 6},
		"another line break":         {"a: |\n  b\u2028c\n  " + text + "\n", 6},
		"a carriage return":          {"a: |\n  b\rc\n  " + text + "\n", 6},
		"a tab":                      {"a:\t|\n  " + text + "\n", 6},
	} {
		if got := marksOutsideText([]byte(c.text)); got != c.want {
			t.Errorf("%s: %d marks; want %d", name, got, c.want)
		}
	}
}

// TestMarksOutsideTextHideNothing: however lines are put together, a document has no more values than its marks allow.
func TestMarksOutsideTextHideNothing(t *testing.T) {
	pieces := []string{
		"a:", "b: |", "c: >-", "d: \"x", "\"", "'", "e: 'x", "f: {", "}", "g: [", "]", "- ", "- h: |", "- - -", "i: j", "k", "# l", "|", "? m", ": n",
		"o: \"p\"", "q: |2", "r: &s", "*s", "\\\"", "''", "[[],[]]", "- - t: u", "v: w: |", "--- ", "!x", "\r", "\u2028", "\t", "x: {}",
	}
	rng := rand.New(rand.NewPCG(1, 2))
	parsed := 0
	for range 300_000 {
		var doc strings.Builder
		for range 2 + rng.IntN(7) {
			doc.WriteString(strings.Repeat(" ", rng.IntN(5)))
			for range 1 + rng.IntN(2) {
				doc.WriteString(pieces[rng.IntN(len(pieces))])
			}
			doc.WriteString("\n")
		}
		text := doc.String()
		var node yaml.Node
		if yaml.Unmarshal([]byte(text), &node) != nil {
			continue
		}
		parsed++
		if got, marks := nodes(&node), marksOutsideText([]byte(text)); got > 2*marks+2 {
			t.Fatalf("%d values with %d marks:\n%s", got, marks, text)
		}
	}
	if parsed < 1000 {
		t.Errorf("%d documents can be parsed; want many", parsed)
	}
}
