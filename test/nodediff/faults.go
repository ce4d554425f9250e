package nodediff

import (
	"fmt"
	"maps"
	"slices"
)

// fault is what was seen with an agent, but for one planted difference.
type fault struct {
	what string
	seen Seen
}

// faults returns a fault of what was seen with Podstream for each section and field that can be missing, for each field
// that can have another value, and for a field that is too much. What the kubelet doesn't have either isn't missing.
func faults(podstream, kubelet Seen) []fault {
	var all []fault
	plant := func(what string, change func(Seen)) {
		changed := Seen{}
		for section, fields := range podstream {
			changed[section] = maps.Clone(fields)
		}
		change(changed)
		all = append(all, fault{what, changed})
	}
	for _, section := range slices.Sorted(maps.Keys(podstream)) {
		if kubelet[section] != nil {
			plant("no "+section, func(s Seen) { delete(s, section) })
		}
		plant("a field too much in "+section, func(s Seen) { s[section]["planted"] = "x" })
		for _, path := range slices.Sorted(maps.Keys(podstream[section])) {
			if value(kubelet[section], path) != absent {
				plant(fmt.Sprintf("no %s in %s", path, section), func(s Seen) { delete(s[section], path) })
			}
			plant(fmt.Sprintf("another %s in %s", path, section), func(s Seen) { s[section][path] += "x" })
		}
	}
	plant("a section too much", func(s Seen) { s["planted"] = Fields{"planted": "x"} })
	return all
}

// Plant plants each fault, and returns those that the comparison doesn't find. A fault is found if it gives a difference
// without a rule that wasn't there before. A section that only Podstream has, and no rule explains, is an error already:
// nothing is planted in it.
func (t *Table) Plant(kubelet, podstream Seen) (missed []string) {
	before, whole := map[string]bool{}, maps.Clone(podstream)
	for i := range t.Unexplained {
		before[t.Unexplained[i].String()] = true
		if t.Unexplained[i].Podstream == present {
			delete(whole, t.Unexplained[i].Section)
		}
	}
	podstream = whole
	for _, f := range faults(podstream, kubelet) {
		t.Planted++
		if slices.ContainsFunc(Compare(t.Case, kubelet, f.seen).Unexplained, func(d Difference) bool { return !before[d.String()] }) {
			t.Caught++
		} else {
			missed = append(missed, f.what)
		}
	}
	return missed
}
