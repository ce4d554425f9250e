//go:build failpoints

package robustness

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestRelayFaults plants the relay's faults one by one in the podconfigds of a chain, and expects that each is
// found.
func TestRelayFaults(t *testing.T) {
	head := &process{node: chainNode(t, "-tags=failpoints")}
	runs := 0
	for _, tc := range []struct {
		fault       failpoint.Name
		convergence time.Duration
		want        []error
	}{
		{failpoint.RelayDropRemove, 5 * time.Second, []error{errApart}},
		// A pod that was created again meanwhile may keep its former path.
		{failpoint.RelayForgetHeld, convergence, []error{ErrStray, errApart}},
	} {
		t.Run(string(tc.fault), func(t *testing.T) {
			t.Setenv(failpoint.Variable, string(tc.fault))
			from := firstSeed(t)
			for range faultRuns {
				runs++
				c, err := newChain(dice{rand.New(rand.NewPCG(from, uint64(runs)))}, head, runs)
				if err != nil {
					t.Fatal(err)
				}
				c.convergence = tc.convergence
				_, err = c.run(500, time.Now().Add(startTimeout))
				switch {
				case slices.ContainsFunc(tc.want, func(want error) bool { return errors.Is(err, want) }):
					t.Logf("found in run %d from seed %d: %v", runs, from, err)
					return
				case err != nil:
					t.Fatalf("run %d from seed %d: %v; want one of %v", runs, from, err, tc.want)
				}
			}
			t.Fatalf("no checker found the fault %s within %d runs from seed %d", tc.fault, faultRuns, from)
		})
	}
}
