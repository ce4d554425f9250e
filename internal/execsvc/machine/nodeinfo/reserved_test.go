package nodeinfo

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Reserved CPUs count as such, whatever cpu is reserved beside them. The machine has the CPUs 0-2 and 5.
func TestReservedCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		cpus         string
		kube, system map[string]string
		want         string
	}{
		"none":                 {"", map[string]string{"cpu": "500m"}, map[string]string{"cpu": "500m"}, "3"},
		"alone":                {"0,5", nil, nil, "2"},
		"a range":              {"0-2", nil, nil, "1"},
		"the last one":         {"5", nil, nil, "3"},
		"in place of less":     {"0-1", map[string]string{"cpu": "100m", "memory": "1Gi"}, map[string]string{"cpu": "100m"}, "2"},
		"in place of more":     {"0", map[string]string{"cpu": "2"}, map[string]string{"cpu": "2"}, "3"},
		"in place of too much": {"0", map[string]string{"cpu": "7"}, nil, "3"},
		"all":                  {"0-2,5", nil, nil, "0"},
	} {
		kube, system := maps.Clone(c.kube), maps.Clone(c.system)
		got, err := Read(Settings{Machine: newMachine(t, files()), ReservedCPUs: c.cpus, KubeReserved: c.kube, SystemReserved: c.system})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if allocatable, bound := got.Allocatable.Cpu().String(), got.Bound.Cpu().String(); allocatable != c.want || bound != c.want {
			t.Errorf("%s: pods may request %s, and use %s; want %s", name, allocatable, bound, c.want)
		}
		if got.Capacity.Cpu().String() != "4" {
			t.Errorf("%s: the capacity is %s", name, got.Capacity.Cpu())
		}
		if diff := cmp.Diff([]map[string]string{kube, system}, []map[string]string{c.kube, c.system}); diff != "" {
			t.Errorf("%s: the configuration changes:\n%s", name, diff)
		}
	}
	for cpus, says := range map[string]string{
		"0-3": "reserved-cpus: 0-3 is not a subset of online-cpus: 0-2,5", "6": "is not a subset", "zero": "reserved-cpus",
	} {
		if _, err := Read(Settings{Machine: newMachine(t, files()), ReservedCPUs: cpus}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("with %s: %v; want an error with %q", cpus, err, says)
		}
	}
}

func TestPodsPerCore(t *testing.T) {
	for name, c := range map[string]struct {
		most, perCore int
		want          string
	}{
		"no limit by core":    {0, 0, "110"},
		"fewer by core":       {110, 10, "40"},
		"more by core":        {30, 10, "30"},
		"the same by core":    {40, 10, "40"},
		"one":                 {110, 1, "4"},
		"far more than 32bit": {110, 1 << 40, "110"},
	} {
		got, err := Read(Settings{Machine: newMachine(t, files()), MaxPods: c.most, PodsPerCore: c.perCore})
		if err != nil {
			t.Fatal(err)
		}
		if capacity, allocatable := got.Capacity.Pods().String(), got.Allocatable.Pods().String(); capacity != c.want || allocatable != c.want {
			t.Errorf("%s: capacity %s, allocatable %s; want %s", name, capacity, allocatable, c.want)
		}
	}
}

func TestSwaps(t *testing.T) {
	const head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"none":         {head, nil},
		"an empty one": {"", nil},
		"one":          {head + "/dev/sda2                               partition\t1048572\t\t0\t\t-2\n", []string{"/dev/sda2"}},
		"two": {
			head + "/dev/zram0 partition 8 0 100\n/swap\\040file                               file\t1\t\t0\t\t-3\n", []string{"/dev/zram0", `/swap\040file`},
		},
	} {
		got, err := Swaps(newMachine(t, map[string]string{"proc/swaps": c.text}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, err := Swaps(t.TempDir()); err != nil || got != nil {
		t.Errorf("a kernel without swap has %v, %v", got, err)
	}
	if _, err := Swaps(newMachine(t, map[string]string{"proc/swaps/x": ""})); err == nil {
		t.Error("a file that can't be read is no error")
	}
}
