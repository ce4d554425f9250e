package cluster

import (
	"flag"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/roottest"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/rig"
)

// The flags of TestVolumeDeaths.
var (
	deaths       = flag.Int("deaths", 12, "the `number` of deaths in TestVolumeDeaths: half of them, or one for each, are at certain points")
	deathNodes   = flag.Int("deaths-nodes", 1, "the `number` of nodes on which they happen side by side")
	deathRuntime = flag.String("deaths-runtime", "containerd-2", "the `runtime`: containerd-2, containerd-1.7, or sim, which doesn't die")
	deathSeed    = flag.Uint64("deaths-seed", 0, "the `seed` of TestVolumeDeaths; 0: a random one")
)

// tally counts the deaths of all nodes. A long run prints every hundredth: its end may never come.
type tally struct {
	began time.Time
	mu    sync.Mutex
	total int
	died  map[string]int
	// left are the deaths that are still to come.
	left atomic.Int64
}

func (c *tally) count(what string) {
	c.left.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.died[what]++
	if c.total++; c.total%100 == 0 {
		fmt.Printf("%d deaths after %v\n", c.total, time.Since(c.began).Round(time.Second))
	}
}

// podexecd, the CSI drivers and containerd are killed: each at its points before, in and after a call, and then at random moments, while
// pods with volumes of all kinds come and go. The judges are the drivers' log, the mount table, the loop devices, what a container finds
// in its volumes, and canaries in the volumes, in mounts of another agent, and in a directory that only looks like a volume: podexecd's
// own records don't count. At the end a fault is planted: a clean-up that crosses mounts. The canaries show it.
//
// By default it takes half a minute. -deaths=1000 -deaths-nodes=4 has each point, and then random moments.
func TestVolumeDeaths(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("mounting needs root")
	}
	roottest.Able(t, csidriver.CheckImages(t.Context()))
	seed := *deathSeed
	if seed == 0 {
		seed = mathrand.Uint64N(1 << 32)
	}
	t.Logf("seed %d", seed)
	programs := filepath.Join(dir, "deaths-programs")
	rig.Must(t, os.MkdirAll(programs, 0o755))
	rig.Must(t, buildAt(programs+"/", "-tags", "failpoints", "./cmd/podexecd", "./internal/simruntime/simruntimed", "./test/csidriver/csidriverd"))
	sample := exec.CommandContext(t.Context(), "go", "build", "-o", programs+"/", "./test/sample")
	sample.Env = append(os.Environ(), "CGO_ENABLED=0")
	sample.Dir = filepath.Join("..", "..")
	rig.Get(sample.CombinedOutput())(t)

	count := &tally{began: time.Now(), died: map[string]int{}}
	count.left.Store(int64(*deaths))
	chance := mathrand.New(mathrand.NewPCG(seed, 0))
	nodes := make([]*mortal, *deathNodes)
	for i := range nodes {
		nodes[i] = newMortal(t, fmt.Sprintf("mortal%d", i), programs, mathrand.New(mathrand.NewPCG(seed, uint64(i+1))), count)
	}
	plan := somePoints(chance, *deaths, *deathRuntime != "sim")
	began := time.Now()
	check(t, fmt.Sprintf("%d deaths, %d of them at certain points", *deaths, len(plan)), func(t *testing.T) {
		var all sync.WaitGroup // With t.Parallel, as many as there are processors would run side by side.
		for i, m := range nodes {
			all.Go(func() {
				t.Run(m.name, func(t *testing.T) {
					for j := i; j < len(plan); j += len(nodes) {
						m.plan(plan[j])
					}
					m.live(t)
				})
			})
		}
		all.Wait()
	})
	took := time.Since(began)
	pods := 0
	for _, what := range slices.Sorted(maps.Keys(count.died)) {
		t.Logf("%5d %s", count.died[what], what)
	}
	for _, m := range nodes {
		pods += m.pods
	}
	t.Logf("%d deaths in %v, %.1f each minute, of %d pods; seed %d", count.total, took.Round(time.Second), float64(count.total)/took.Minutes(), pods, seed)
	check(t, "nothing is left, and all canaries are intact", func(t *testing.T) {
		for _, m := range nodes {
			m.finish(t)
		}
	})
	check(t, "a clean-up that crosses mounts is found", nodes[0].plantCrossing)
	for _, m := range nodes {
		m.unmountForeign(t)
		m.judge(t)
	}
}
