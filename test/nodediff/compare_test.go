package nodediff

import (
	"slices"
	"strings"
	"testing"
)

// TestCompare: each field and section that only one side has, or has with another value, is a difference.
func TestCompare(t *testing.T) {
	kubelet := Seen{"cgroups": {"a/cpu.weight": "39", "a/pids.max": "10", "a/memory.max": "max"}, "event Node/node Starting": {"[0].type": "Normal"}}
	podstream := Seen{"cgroups": {"a/cpu.weight": "40", "a/pids.max": "10", "a/memory.min": "0"}, "event Node/node Ended": {"[0].type": "Normal"}}
	table := Compare("c", kubelet, podstream)
	var got []string
	for i := range table.Unexplained {
		got = append(got, table.Unexplained[i].Section+": "+table.Unexplained[i].Path)
	}
	want := []string{"cgroups: a/cpu.weight", "cgroups: a/memory.max", "cgroups: a/memory.min", "event Node/node Ended: ", "event Node/node Starting: "}
	if !slices.Equal(got, want) {
		t.Errorf("the differences are %q; want %q", got, want)
	}
	if table.Values != 6 {
		t.Errorf("%d values were compared; want 6", table.Values)
	}
}

// TestPlant: the comparison finds each fault, also where the agents differ already.
func TestPlant(t *testing.T) {
	kubelet := Seen{"cgroups": {"a": "1", "b": "2"}, "node": {"info.kubeletVersion": "v1.37.2"}}
	podstream := Seen{"cgroups": {"a": "1", "b": "3", "c": "4"}, "node": {"info.kubeletVersion": "v1.37.2-podstream"}}
	table := Compare("c", kubelet, podstream)
	if missed := table.Plant(kubelet, podstream); len(missed) > 0 || table.Planted < 10 || table.Caught != table.Planted {
		t.Errorf("of %d planted differences %d are found; missed %q", table.Planted, table.Caught, missed)
	}
}

// TestRows: the table names the sum, and each rule.
func TestRows(t *testing.T) {
	a := &Table{Case: "a", Values: 3, ByRule: map[string]int{"version": 1}, Planted: 2, Caught: 2}
	b := &Table{Case: "b", Values: 4, ByRule: map[string]int{"version": 2}, Unexplained: []Difference{{}}, Planted: 5, Caught: 4}
	rows := strings.Split(Rows([]*Table{a, b}), "\n")
	if got := strings.Fields(rows[3]); !slices.Equal(got, []string{"all", "7", "3", "1", "7", "6"}) {
		t.Errorf("the sum is %q", got)
	}
	if got := strings.Fields(rows[4]); !slices.Equal(got, []string{"3", "version"}) {
		t.Errorf("the rule's row is %q", got)
	}
}
