package manifest

import (
	"bytes"
	"strings"
	"testing"
)

// TestPlainIsReadAsTheRest: a plain document is read without its syntax tree, with the same result as with it. A
// document end makes any document one that isn't plain.
func TestPlainIsReadAsTheRest(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n",
		"# a comment\n\na: 1\nb: [x, {y: z}]\nc: |\n  text\n  more\nd: >-\n  folded\n  too\n",
		"a: yes\nb: 0o17\nc: 017\nd: 1e3\ne: ~\nf: 2001-01-01\ng: '1'\nh: 0x1F\ni: 1_000\n",
		"a: 1\na: 2\n", "a:\n  b: 1\n  b: 1\n", "a: {b: 1, b: 2}\n",
		"a: b: c\n", "a:\n\t- b\n", "a: 'open\n", "a: 1\n b: 2\n", "a: 1\n{}\n", "a: 1\n]\n",
		"a: \"\\u2028\\x07\"\nb: \u00e9\n", "a: !!binary aGk=\n", "a: !x y\n", "text\n", "a:\n", "a: 1 # c\n", "? a\n: b\n",
		"a: " + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "\n",
	} {
		plain, tree := &document{data: []byte(text), line: 1}, &document{data: []byte(text + "...\n"), line: 1}
		plain.read()
		tree.read()
		if !bytes.Equal(plain.json, tree.json) || (plain.err == nil) != (tree.err == nil) || len(plain.doubled) != len(tree.doubled) {
			t.Errorf("%q is read as %s (%v, doubled %v);\nwith a look at its tree as %s (%v, doubled %v)",
				text, plain.json, plain.err, plain.doubled, tree.json, tree.err, tree.doubled)
		}
	}
	if !isPlain([]byte("# c\n\napiVersion: v1\n")) || isPlain([]byte("{}\n")) || isPlain([]byte("a: &x 1\n")) || isPlain([]byte("a: 1\n...\n{}\n")) {
		t.Error("isPlain is wrong")
	}
}
