package nodediff

import (
	"maps"
	"slices"
	"testing"
)

// example is a difference that a rule explains, in a case of some name.
type example struct {
	rule, of           string
	kubelet, podstream Seen
	// neighbours are changes after which no rule explains the difference.
	neighbours map[string]func(kubelet, podstream Seen)
}

// field returns what is seen if it is one field.
func field(section, path, value string) Seen { return Seen{section: {path: value}} }

func (s Seen) clone() Seen {
	c := Seen{}
	for section, fields := range s {
		c[section] = maps.Clone(fields)
	}
	return c
}

// TestRules: each rule has a reason and an example, which it explains, and no other rule does. It explains none of the
// example's neighbours.
func TestRules(t *testing.T) {
	for i := range Rules {
		r := &Rules[i]
		if r.Reason == "" || !slices.ContainsFunc(examples, func(e example) bool { return e.rule == r.Name }) {
			t.Errorf("rule %s has no reason or no example", r.Name)
		}
	}
	for _, e := range examples {
		table := Compare(e.of, e.kubelet, e.podstream)
		if len(table.Unexplained) > 0 || len(table.ByRule) != 1 || table.ByRule[e.rule] == 0 {
			t.Errorf("%s: explained %v, unexplained %v", e.rule, table.ByRule, table.Unexplained)
		}
		for what, change := range e.neighbours {
			kubelet, podstream := e.kubelet.clone(), e.podstream.clone()
			change(kubelet, podstream)
			if table := Compare(e.of, kubelet, podstream); len(table.Unexplained) == 0 {
				t.Errorf("%s, %s: explained %v", e.rule, what, table.ByRule)
			}
		}
		if missed := table.Plant(e.kubelet, e.podstream); len(missed) > 0 {
			t.Errorf("%s: planted and not found: %q", e.rule, missed)
		}
	}
}
