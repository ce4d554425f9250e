package nodeinfo

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestReadProcesses: only what limits all pods together has the processes, since no pod requests them.
func TestReadProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		most, threads     string
		unreserved, bound string
	}{
		"the fewer threads":   {"4194304\n", "23935\n", "23935", "22935"},
		"the fewer processes": {"32768\n", "255000\n", "32768", "31768"},
		"only one is known":   {"32768\n", "many", "32768", "31768"},
		"unknown":             {"", "0", "0", "0"},
	} {
		all := files()
		all["proc/sys/kernel/pid_max"], all["proc/sys/kernel/threads-max"] = c.most, c.threads
		got, err := Read(Settings{Machine: newMachine(t, all), KubeReserved: map[string]string{"pid": "600"}, SystemReserved: map[string]string{"pid": "400"}})
		if err != nil {
			t.Fatal(err)
		}
		if unreserved, bound := got.Unreserved["pid"], got.Bound["pid"]; unreserved.String() != c.unreserved || bound.String() != c.bound {
			t.Errorf("%s: all pods may have %s, or %s; want %s, or %s", name, &unreserved, &bound, c.unreserved, c.bound)
		}
		for _, list := range []v1.ResourceList{got.Capacity, got.Allocatable} {
			if q, has := list["pid"]; has {
				t.Errorf("%s: the node offers %s processes to pods", name, &q)
			}
		}
	}
}

// A reservation that leaves pods too few processes has no effect: pods may have all, and the node starts.
func TestReadIgnoresTooManyReservedProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		kube, system   string
		bound, ignored string
	}{
		"none":              {"0", "0", "8000", "0"},
		"the last that fit": {"7000", "936", "64", "0"},
		"one more":          {"7000", "937", "8000", "7937"},
		"all but one":       {"7000", "999", "8000", "7999"},
		"all":               {"7000", "1000", "8000", "8000"},
		"more":              {"16k", "16k", "8000", "32k"},
		"far more":          {"1E", "8E", "8000", "9E"},
	} {
		all := files()
		all["proc/sys/kernel/pid_max"], all["proc/sys/kernel/threads-max"] = "32768\n", "8000\n"
		got, err := Read(Settings{Machine: newMachine(t, all), KubeReserved: map[string]string{"pid": c.kube}, SystemReserved: map[string]string{"pid": c.system}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if bound := got.Bound["pid"]; bound.Cmp(resource.MustParse(c.bound)) != 0 || got.IgnoredPIDs.Cmp(resource.MustParse(c.ignored)) != 0 {
			t.Errorf("%s: all pods may have %s, ignored are %s; want %s and %s", name, &bound, &got.IgnoredPIDs, c.bound, c.ignored)
		}
	}
	// A machine with fewer processes than the least has a limit all the same.
	all := files()
	all["proc/sys/kernel/pid_max"] = "50\n"
	got, err := Read(Settings{Machine: newMachine(t, all)})
	if bound := got.Bound["pid"]; err != nil || bound.Value() != 50 || !got.IgnoredPIDs.IsZero() {
		t.Errorf("without a reservation all pods may have %s (%v), ignored are %s; want 50, and none", &bound, err, &got.IgnoredPIDs)
	}
}
