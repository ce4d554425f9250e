package failpoint_test

import (
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestNothingIsActive: in every build, all faults are off until they are switched on.
func TestNothingIsActive(t *testing.T) {
	seen := map[failpoint.Name]bool{}
	others := slices.Concat(failpoint.RelayNames(), failpoint.ExecNames(), failpoint.ClusterNames(), failpoint.VolumeNames(),
		failpoint.WatchdogNames(), failpoint.WebNames(), failpoint.WriteNames())
	for _, n := range slices.Concat(failpoint.Names(), others) {
		if failpoint.Active(n) {
			t.Errorf("fault %s is active; want none", n)
		}
		seen[n] = true
	}
	if want := 11 + len(others); len(seen) != want || len(failpoint.Names()) != 11 {
		t.Errorf("there are %d faults of different names, %d of them of promises; want %d, and one for each of the eleven promises",
			len(seen), len(failpoint.Names()), want)
	}
}
