package failpoint_test

import (
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestPoints: no point is there twice, and those of each daemon are told apart; in a build that isn't told to die, nobody does.
func TestPoints(t *testing.T) {
	seen := map[failpoint.Point]bool{}
	for _, p := range slices.Concat(failpoint.Points(), failpoint.ClusterPoints()) {
		if seen[p] {
			t.Errorf("point %s is there twice", p)
		}
		seen[p] = true
		failpoint.Reached(p)
	}
	if want := len(failpoint.ExecPoints()) + len(failpoint.ConfigPoints()) + len(failpoint.ClusterPoints()); len(seen) != want || !seen[failpoint.AfterCall("StopContainer")] {
		t.Errorf("there are %d points; want %d, and one after StopContainer among them", len(seen), want)
	}
}
