package failpoint_test

import (
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestPoints: the points are distinct, also between the daemons; a process without a crash point never dies.
func TestPoints(t *testing.T) {
	seen := map[failpoint.Point]bool{}
	all := slices.Concat(failpoint.Points(), failpoint.RotationPoints(), failpoint.RestartPoints(), failpoint.ClusterPoints(),
		failpoint.WritePoints(), failpoint.StoragePoints())
	for _, p := range all {
		if seen[p] {
			t.Errorf("point %s is there twice", p)
		}
		seen[p] = true
		failpoint.Reached(p)
	}
	if want := len(all); len(seen) != want || !seen[failpoint.AfterCall("StopContainer")] {
		t.Errorf("there are %d points; want %d, and one after StopContainer among them", len(seen), want)
	}
}
