//go:build failpoints

package robustness

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/failpoint"
)

// faultRuns is the number of runs within which each fault must be found.
const faultRuns = 60

// TestFaults plants the faults one by one, and expects a breach from the checker of the promise that each fault
// breaks.
func TestFaults(t *testing.T) {
	for i, name := range failpoint.Names() {
		t.Run(string(name), func(t *testing.T) { testFault(t, name, Checkers()[i].Name) })
	}
}

func testFault(t *testing.T, name failpoint.Name, promise string) {
	patience, padding := 5*time.Second, 48
	if name == failpoint.SendUnderLock {
		// The pods are large, so that a consumer that doesn't read soon blocks the daemon's sending, which must
		// not delay other consumers.
		patience, padding = time.Second, 2
	}
	from := firstSeed(t)
	setFlag(t, "rapid.seed", strconv.FormatUint(from, 10))
	setFlag(t, "rapid.steps", strconv.Itoa(stepsARun))
	setFlag(t, "rapid.checks", strconv.Itoa(faultRuns))
	defer failpoint.Enable(name)()
	noticed, runs := map[string]string{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		if noticed[promise] != "" {
			return
		}
		runs++
		for _, b := range Breaches(simulateFault(rt, name, patience, padding)) {
			noticed[b.Promise] = b.Error()
		}
	})
	others := slices.Sorted(maps.Keys(noticed))
	if noticed[promise] == "" {
		t.Fatalf("with the fault %s within %d runs from seed %d no checker reported that %s is broken; these were reported: %v",
			name, runs, from, promise, others)
	}
	t.Logf("found in run %d from seed %d, as %v: %s", runs, from, others, noticed[promise])
}

// simulateFault makes one run in which the fault can be found.
func simulateFault(t *rapid.T, name failpoint.Name, patience time.Duration, padding int) *History {
	if name == failpoint.IgnorePosition {
		return simulateGateways(t, patience).recorder.History()
	}
	return simulateLocal(t, patience, padding).recorder.History()
}
