package robustness

import (
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/test/devnode"
)

const (
	// chainTime is the duration of TestRelayChain if ROBUSTNESS_TIME isn't set.
	chainTime = 15 * time.Second
	// stepsAChainRun is the number of steps after which a run is checked.
	stepsAChainRun = 1500
)

// unknown counts units whose revision the witness missed.
const unknown = "unknown revision"

// heartbeat is the heartbeat interval of the consumers of a chain.
var heartbeat = durationpb.New(time.Second)

// TestRelayChain checks every promise at the end of a chain of podconfigds. Each is a separate process that is
// killed with SIGKILL at any moment, most often the one in the middle, and also while others are down.
func TestRelayChain(t *testing.T) {
	head := &process{node: chainNode(t)}
	from, began := firstSeed(t), time.Now()
	t.Logf("seed %d; the timing of the processes can't be repeated", from)
	operations, runs, revisions, kills, seen := 0, 0, 0, [3]int{}, map[string]int{}
	for until := began.Add(robustnessTime(t, chainTime)); time.Now().Before(until); runs++ {
		c, err := newChain(dice{rand.New(rand.NewPCG(from, uint64(runs)))}, head, runs)
		if err != nil {
			t.Fatal(err)
		}
		end, err := c.run(stepsAChainRun, until)
		if err != nil {
			t.Fatalf("run %d from seed %d: %v", runs, from, err)
		}
		operations += c.operations
		for which, n := range c.kills {
			kills[which] += n
		}
		for _, l := range end.lives {
			revisions += len(l.moments)
		}
		cover(seen, end)
		for _, p := range end.passages {
			if p.ended() && p.moment == nil {
				seen[unknown]++
			}
		}
	}
	t.Logf("%d operations, %v kills of head, middle and end, and %d revisions at the end in %d runs, seed %d, took %v",
		operations, kills, revisions, runs, from, time.Since(began).Round(time.Millisecond))
	t.Logf("units of the end's consumers by kind: %v", seen)
	if total := seen[exact.String()] + seen[mark.String()]; seen[unknown] > total/10 {
		t.Errorf("the expected content of %d units isn't known; want few", seen[unknown])
	}
	if operations >= 10_000 && (seen[exact.String()] == 0 || seen[coalesced.String()] == 0 || seen[difference.String()] == 0) {
		t.Error("not every kind of unit was received, so the test doesn't cover all kinds")
	}
}

func chainNode(t *testing.T, flags ...string) *devnode.Node {
	t.Helper()
	node, err := devnode.Start(t.Context(), devnode.Config{Dir: t.TempDir(), Runtime: devnode.Sim, BuildFlags: flags, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	return node
}

// run takes this many steps, but none after the time, and runs the checkers.
func (c *chain) run(steps int, until time.Time) (*Run, error) {
	defer c.close()
	for i := 0; i < steps && time.Now().Before(until); i++ {
		if err := c.step(); err != nil {
			return nil, err
		}
	}
	if err := c.finish(); err != nil {
		return nil, err
	}
	c.close()
	return c.judge()
}
