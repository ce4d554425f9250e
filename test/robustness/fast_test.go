package robustness

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

var (
	// With ROBUSTNESS_TIME it goes on for that long at least.
	wantOperations = flag.Int("ops", defaultOperations, "how many operations TestSimulation makes at least")
	seed           = flag.Uint64("seed", 0, "with which seed TestSimulation begins; 0 is a random one")
)

const (
	// stepsARun is how many steps a run has on average: few enough to be shrunk, enough for several lives.
	stepsARun = 200
	// runsACheck is after how many runs the operations are counted.
	runsACheck = 25
	// someConsumers is how many there are in a run.
	someConsumers = 4
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation keeps every promise through random changes of sources, consumers that stall, drop and resume, and
// kills of the daemon. A failing run is shrunk, and its seed printed.
func TestSimulation(t *testing.T) {
	began, operations, runs := time.Now(), 0, 0
	from, until := firstSeed(t), time.Now().Add(robustnessTime(t, 0))
	seen := map[string]int{}
	setFlag(t, "rapid.steps", strconv.Itoa(stepsARun))
	setFlag(t, "rapid.checks", strconv.Itoa(runsACheck))
	t.Logf("seed %d", from)
	// The first failure is told if its shrunk repetition fails no more: what goroutines do can't be repeated exactly.
	var first, last string
	t.Cleanup(func() {
		if t.Failed() && last == "" {
			t.Log(first)
		}
	})
	for next := from; operations < *wantOperations || time.Now().Before(until); next += 1_000_003 {
		setFlag(t, "rapid.seed", strconv.FormatUint(next, 10))
		rapid.Check(t, func(rt *rapid.T) {
			last = ""
			s := simulateLocal(rt, 0, 12)
			operations += s.operations
			runs++
			h := s.recorder.History()
			run := NewRun(h)
			cover(seen, run)
			breaches := run.breaches()
			if len(breaches) == 0 {
				return
			}
			last = account(h, breaches)
			if first == "" {
				first = last
			}
			rt.Log(last)
			// Runs count as one failure, and are shrunk to one another, only if they end with the same words.
			rt.Fatalf("promise %s is broken", breaches[0].Promise)
		})
	}
	t.Logf("%d operations in %d runs, seed %d, took %v", operations, runs, from, time.Since(began).Round(time.Millisecond))
	t.Logf("units by how they took a consumer forward: %v", seen)
	for _, how := range []string{fresh.String(), exact.String(), coalesced.String(), difference.String(), set.String(), overtaken} {
		if seen[how] == 0 && operations >= 50_000 {
			t.Errorf("no consumer was ever taken forward by %s: the simulation doesn't test that", how)
		}
	}
}

// overtaken is said of a consumer that read so slowly that the history went past it while it was connected.
const overtaken = "catch-up of a connected consumer"

// cover counts how consumers were taken forward.
func cover(seen map[string]int, r *Run) {
	for _, p := range r.passages {
		seen[p.kind.String()]++
		if p.kind == coalesced && !p.opening {
			seen[overtaken]++
		}
	}
}

// simulateLocal makes one run on a daemon in this process.
func simulateLocal(t *rapid.T, patience time.Duration, padding int) *simulation {
	c := drawn{t}
	rec := NewRecorder(localRevisions, patience)
	d := newLocal(tempDir(t))
	s, err := newSimulation(c, d, newFeeds(c, padding), rec, rec.History().patience(), someConsumers)
	// Also where rapid ends the run in the middle of a draw: no stream or goroutine may outlive it.
	defer s.end()
	if err != nil {
		t.Fatal(err)
	}
	t.Repeat(map[string]func(*rapid.T){"step": func(t *rapid.T) {
		if err := s.step(); err != nil {
			t.Fatal(err)
		}
	}})
	s.finish()
	return s
}

// tempDir is a directory for one run, in memory if there is a place for that.
func tempDir(t *rapid.T) string {
	in := "/dev/shm"
	if _, err := os.Stat(in); err != nil {
		in = ""
	}
	dir, err := os.MkdirTemp(in, "podstream")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// firstSeed is that of the flag -seed, or of -rapid.seed, with which rapid tells how a failure is reproduced, or a
// random one.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	if *seed != 0 {
		return *seed
	}
	if n, err := strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64); err == nil && n != 0 {
		return n
	}
	return rand.Uint64N(1_000_000_000) + 1
}

// setFlag sets a flag of rapid's until the test ends.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, before) })
}
