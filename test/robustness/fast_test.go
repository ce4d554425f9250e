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
	// With ROBUSTNESS_TIME, TestSimulation continues for at least that long.
	wantOperations = flag.Int("ops", defaultOperations, "the minimum number of operations of TestSimulation")
	seed           = flag.Uint64("seed", 0, "the first seed of TestSimulation; 0 means a random one")
)

const (
	// stepsARun is the average number of steps in a run: few enough to be shrunk, and enough for several
	// restarts.
	stepsARun = 200
	// runsACheck is the number of runs after which the operations are counted.
	runsACheck = 25
	// someConsumers is the number of consumers in a run.
	someConsumers = 4
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation checks every promise through random changes of sources, consumers that stall, drop and resume,
// and kills of the daemon. A failing run is shrunk, and its seed printed.
func TestSimulation(t *testing.T) {
	began, operations, runs := time.Now(), 0, 0
	from, until := firstSeed(t), time.Now().Add(robustnessTime(t, 0))
	seen := map[string]int{}
	setFlag(t, "rapid.steps", strconv.Itoa(stepsARun))
	setFlag(t, "rapid.checks", strconv.Itoa(runsACheck))
	t.Logf("seed %d", from)
	// If the shrunk run no longer fails, the first failure is reported: goroutines can't be repeated exactly.
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
			// rapid counts runs as one failure, and shrinks one to another, only if their messages end with the
			// same words.
			rt.Fatalf("promise %s is broken", breaches[0].Promise)
		})
	}
	t.Logf("%d operations in %d runs, seed %d, took %v", operations, runs, from, time.Since(began).Round(time.Millisecond))
	t.Logf("units by kind: %v", seen)
	for _, how := range []string{fresh.String(), exact.String(), coalesced.String(), difference.String(), set.String(), overtaken} {
		if seen[how] == 0 && operations >= 50_000 {
			t.Errorf("no consumer received a unit by %s: the simulation doesn't test it", how)
		}
	}
	// A run has some ten times as many. A few come by chance, even if overtake no longer makes them.
	if least := operations / 10_000; operations >= 50_000 && seen[mixed] < least {
		t.Errorf("%d units are a %s; want %d at least: the simulation hardly tests it", seen[mixed], mixed, least)
	}
}

const (
	// overtaken counts consumers that read so slowly that the history dropped their revisions while they were
	// connected.
	overtaken = "catch-up of a connected consumer"
	// mixed counts units whose revision the history dropped before the consumer had read all of it.
	mixed = "mixture of revisions"
)

// cover counts the units by kind.
func cover(seen map[string]int, r *Run) {
	for _, p := range r.passages {
		seen[p.kind.String()]++
		if p.kind == coalesced && !p.opening {
			seen[overtaken]++
		}
		if p.ended() && isMixed(p.unit.cursor) {
			seen[mixed]++
		}
	}
}

// simulateLocal makes one run on a daemon in this process.
func simulateLocal(t *rapid.T, patience time.Duration, padding int) *simulation {
	c := drawn{t}
	rec := NewRecorder(localRevisions, patience)
	d := newLocal(tempDir(t))
	s, err := newSimulation(c, d, newFeeds(c, padding), rec, rec.History().patience(), someConsumers)
	// Also if rapid ends the run in the middle of a draw: no stream or goroutine may outlive it.
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

// tempDir returns a directory for one run, in memory if possible.
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

// firstSeed returns the flag -seed, or -rapid.seed, with which rapid says how to reproduce a failure, or a
// random seed.
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

// setFlag sets a flag of rapid until the test ends.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, before) })
}
