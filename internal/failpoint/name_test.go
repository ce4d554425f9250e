package failpoint_test

import (
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestNothingIsActive: no fault is on that nobody switched on, in any build.
func TestNothingIsActive(t *testing.T) {
	seen := map[failpoint.Name]bool{}
	for _, n := range failpoint.Names() {
		if failpoint.Active(n) {
			t.Errorf("fault %s is active; want none", n)
		}
		seen[n] = true
	}
	if len(seen) != 10 {
		t.Errorf("there are %d faults; want one for each of the ten promises", len(seen))
	}
}
