package hazards

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mark is the placeholder in a text for an ID that differs in each run: a kind, which is one letter, and the ID.
func mark(kind, id string) string { return "\x01" + kind + id + "\x02" }

var marked = regexp.MustCompile("\x01[^\x02]+\x02")

// names are the short names of marks in the output: the kind, and a number in the order of the commands'
// answers. A mark that isn't in an answer has no name. They are immutable.
type names map[string]string

// show returns a text with names for its marks, and the names with the new ones.
func (n names) show(text string) (string, names) {
	next := maps.Clone(n)
	text = marked.ReplaceAllStringFunc(text, func(m string) string {
		if _, ok := next[m]; !ok {
			number := 1
			for other := range next {
				if other[1] == m[1] {
					number++
				}
			}
			next[m] = fmt.Sprint(m[1:2], number)
		}
		return next[m]
	})
	return text, next
}

// sorted returns the lines in the order of their text, without the names that are not yet given.
func (n names) sorted(lines []string) []string {
	key := func(line string) string {
		return marked.ReplaceAllStringFunc(line, func(m string) string { return n[m] })
	}
	return slices.SortedStableFunc(slices.Values(lines), func(a, b string) int { return strings.Compare(key(a), key(b)) })
}

// An answer that isn't the expected one defines no names.
func TestNamesAreTentative(t *testing.T) {
	first, _ := names{}.show(mark("u", "x") + mark("c", "z"))
	second, after := names{}.show(mark("u", "y") + " " + mark("u", "x") + " " + mark("u", "y") + " " + mark("c", "z"))
	if first != "u1c1" || second != "u1 u2 u1 c1" {
		t.Errorf("the texts are %q and %q", first, second)
	}
	lines := after.sorted([]string{"b " + mark("u", "new"), "a " + mark("u", "x"), "a " + mark("u", "y")})
	if got, _ := after.show(strings.Join(lines, ",")); got != "a u1,a u2,b u3" {
		t.Errorf("the lines are %q", got)
	}
}
