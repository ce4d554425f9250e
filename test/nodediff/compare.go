package nodediff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fields are values by path: "capacity.cpu".
type Fields = map[string]string

// Seen is what was seen of an agent and its node, by section: "node", "event Node/node Starting".
type Seen map[string]Fields

// Difference is a field, or a whole section, that the agents don't have alike.
type Difference struct {
	Case, Section string
	// Path is empty if one agent doesn't have the section at all.
	Path string
	// Kubelet and Podstream are the values, or absent, or present.
	Kubelet, Podstream string
	// of is all that was seen with each agent.
	of sides
}

// sides are what was seen with each agent.
type sides struct{ kubelet, podstream Seen }

const (
	// absent is the value of a field or section that an agent doesn't have. No value of a field contains it.
	absent = "\x00absent"
	// present is the value of a section that an agent has and the other one doesn't.
	present = "\x00present"
)

func (d *Difference) String() string {
	return fmt.Sprintf("%s: %s: %s: kubelet %q, podstream %q", d.Case, d.Section, d.Path, d.Kubelet, d.Podstream)
}

// Table counts what was compared and found in one case, or in several.
type Table struct {
	Case string
	// Values counts the fields.
	Values int
	// ByRule counts the explained differences, and Unexplained are the other ones.
	ByRule      map[string]int
	Unexplained []Difference
	// Planted counts the differences that were planted, and Caught those of them that were found.
	Planted, Caught int
}

// Compare compares what was seen with both agents.
func Compare(name string, kubelet, podstream Seen) *Table {
	t := &Table{Case: name, ByRule: map[string]int{}}
	for _, section := range union(kubelet, podstream) {
		d := Difference{Case: name, Section: section, of: sides{kubelet, podstream}}
		k, inKubelet := kubelet[section]
		p, inPodstream := podstream[section]
		if inKubelet != inPodstream {
			t.Values++
			d.Kubelet, d.Podstream = presence(inKubelet), presence(inPodstream)
			t.add(d)
			continue
		}
		for _, path := range union(k, p) {
			t.Values++
			if d.Path, d.Kubelet, d.Podstream = path, value(k, path), value(p, path); d.Kubelet != d.Podstream {
				t.add(d)
			}
		}
	}
	return t
}

func (t *Table) add(d Difference) {
	if name := Explain(&d); name != "" {
		t.ByRule[name]++
		return
	}
	t.Unexplained = append(t.Unexplained, d)
}

func presence(is bool) string {
	if is {
		return present
	}
	return absent
}

func value(f Fields, path string) string {
	if v, ok := f[path]; ok {
		return v
	}
	return absent
}

// union returns the keys of both, sorted.
func union[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Add adds another table.
func (t *Table) Add(other *Table) {
	t.Values += other.Values
	t.Planted, t.Caught = t.Planted+other.Planted, t.Caught+other.Caught
	for name, n := range other.ByRule {
		t.ByRule[name] += n
	}
	t.Unexplained = append(t.Unexplained, other.Unexplained...)
}

func (t *Table) explained() int {
	n := 0
	for _, of := range t.ByRule {
		n += of
	}
	return n
}

// Rows returns the tables and their sum for people.
func Rows(tables []*Table) string {
	var b strings.Builder
	sum := &Table{Case: "all", ByRule: map[string]int{}}
	fmt.Fprintf(&b, "%-34s %7s %8s %12s %8s %7s\n", "case", "values", "by rule", "unexplained", "planted", "caught")
	row := func(t *Table) {
		fmt.Fprintf(&b, "%-34s %7d %8d %12d %8d %7d\n", t.Case, t.Values, t.explained(), len(t.Unexplained), t.Planted, t.Caught)
	}
	for _, t := range tables {
		row(t)
		sum.Add(t)
	}
	row(sum)
	for _, name := range slices.Sorted(maps.Keys(sum.ByRule)) {
		fmt.Fprintf(&b, "%7d  %s\n", sum.ByRule[name], name)
	}
	return b.String()
}
