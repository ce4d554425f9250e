package robustness

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// forwardRuns is the number of runs of TestSimulationOfGateways.
const forwardRuns = 40

// TestSimulationOfGateways checks G11 while consumers move between gateways that are cut off from the API server, and
// restarted, at random.
func TestSimulationOfGateways(t *testing.T) {
	began, operations, runs := time.Now(), 0, 0
	from, until := firstSeed(t), time.Now().Add(robustnessTime(t, 0))
	seen := map[string]int{}
	setFlag(t, "rapid.steps", strconv.Itoa(stepsARun))
	setFlag(t, "rapid.checks", strconv.Itoa(runsACheck))
	t.Logf("seed %d", from)
	for next := from; runs < forwardRuns || time.Now().Before(until); next += 1_000_003 {
		setFlag(t, "rapid.seed", strconv.FormatUint(next, 10))
		rapid.Check(t, func(rt *rapid.T) {
			w := simulateGateways(rt, 30*time.Second)
			operations += w.operations
			runs++
			for what, n := range w.seen {
				seen[what] += n
			}
			h := w.recorder.History()
			if breaches := Breaches(h); len(breaches) > 0 {
				rt.Log(h.Gateways.account() + account(h, breaches))
				rt.Fatalf("promise %s is broken", breaches[0].Promise)
			}
		})
	}
	t.Logf("%d moves and rests in %d runs, seed %d, took %v: %v", operations, runs, from, time.Since(began).Round(time.Millisecond), seen)
}

// account returns the moments of the API server, and the readings of the gateways, one on each line.
func (g *Gateways) account() string {
	var b strings.Builder
	for n, m := range g.Truth.moments {
		fmt.Fprintf(&b, "moment %d: %s version %d", n, m.cluster, m.version)
		for _, p := range m.pods {
			fmt.Fprintf(&b, " %s=%s:%s:%s", p.UID, p.Name, short(p.SpecDigest), short(p.StatusDigest))
		}
		b.WriteString("\n")
	}
	for i, l := range g.Lives {
		for _, r := range l.Readings {
			fmt.Fprintf(&b, "start %d of %s: revision %d, moment %d (published %d), %v, file", i+1, l.Name, r.Revision, r.Moment, r.Published, r.Position)
			for _, p := range r.File {
				fmt.Fprintf(&b, " %s=%s", p.UID, p.Name)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
