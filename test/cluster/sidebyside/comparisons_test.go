package sidebyside

import "testing"

// Each comparison finds a difference, and accepts equal answers that are laid out differently where it may.
func TestComparisons(t *testing.T) {
	table := func(rows string) answer { return answer{stdout: "NAME   READY   RESTARTS     AGE\n" + rows} }
	for name, c := range map[string]struct {
		compare               comparison
		there, equal, unequal answer
	}{
		"text":    {sameText, answer{stdout: "a\n"}, answer{stdout: "a\n"}, answer{stdout: "a"}},
		"lines":   {sameLines, answer{stdout: "a\nb\n"}, answer{stdout: "b\na\n"}, answer{stdout: "a\n"}},
		"during":  {sameDuring, answer{during: "a"}, answer{during: "a"}, answer{}},
		"has":     {has("a"), answer{stdout: "a"}, answer{stdout: "ba"}, answer{stdout: "b"}},
		"find":    {same(find(`a: (\S+)`)), answer{stdout: "a: 1 b"}, answer{stdout: "c a: 1"}, answer{stdout: "a: 2"}},
		"nothing": {same(find(`a: (\S+)`)), answer{stdout: "a: 1"}, answer{stdout: "a: 1"}, answer{}},
		"columns": {inOrder("NAME", "RESTARTS"), table("web   2/2   1 (5s ago)   7s\n"), table("web   1/2   1   9s\n"), table("web   2/2   2 (5s ago)   7s\n")},
		"order": {inOrder("NAME"), table("web   2/2   0   7s\ndb   1/1   0   7s\n"), table("web   2/2   0   7s\ndb   1/1   0   7s\n"),
			table("db   1/1   0   7s\nweb   2/2   0   7s\n")},
		"contains": {contains(words, words), answer{stdout: "a b"}, answer{stdout: "a"}, answer{stdout: "a c"}},
		"prefixes": {same(prefixes(2, words)), answer{stdout: "abc"}, answer{stdout: "abd"}, answer{stdout: "acc"}},
		"pod": {samePod, answer{stdout: "{kind: Pod, metadata: {name: web}, status: {phase: Running}}"}, answer{stdout: "kind: Pod\nmetadata: {name: web}\nstatus: {phase: Running}\n"},
			answer{stdout: "{kind: Pod, metadata: {name: web}, status: {phase: Failed}}"}},
	} {
		if difference := c.compare(c.there, c.equal); difference != "" {
			t.Errorf("%s: equal answers differ: %s", name, difference)
		}
		if c.compare(c.there, c.unequal) == "" {
			t.Errorf("%s: the difference isn't found", name)
		}
	}
	if inOrder("NO")(table("web   2/2   0   7s\n"), table("web   2/2   0   7s\n")) == "" {
		t.Error("tables without the column are equal")
	}
}
