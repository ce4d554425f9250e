package survival

import (
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

var seed = flag.Uint64("seed", 0, "the seed of the first storm; 0 means a random one")

// atOnce is how many sites run at a time: nearly all of them wait nearly all of the time.
const atOnce = 4

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, func() error { return rig.Parallel(atOnce) }, func() error { return os.RemoveAll(builds.dir) }))
}

// robustnessTime returns the environment's ROBUSTNESS_TIME, or otherwise, and reports whether it is set: then a
// test may take long.
func robustnessTime(t *testing.T, otherwise time.Duration) (d time.Duration, long bool) {
	t.Helper()
	text := os.Getenv("ROBUSTNESS_TIME")
	if text == "" {
		return otherwise, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ROBUSTNESS_TIME: %v", err)
	}
	return d, true
}

func firstSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	return rand.Uint64N(1_000_000_000) + 1
}

// builds are the binaries of the product, without and with failpoints. Each is built once.
var builds struct {
	sync.Mutex
	dir  string
	dirs map[string]string
}

// binaries returns the directory of the binaries with those build tags.
func binaries(t *testing.T, tags string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if dir := builds.dirs[tags]; dir != "" {
		return dir
	}
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "survival")
		if err != nil {
			t.Fatal(err)
		}
		builds.dir, builds.dirs = dir, map[string]string{}
	}
	dir := filepath.Join(builds.dir, "bin"+tags)
	for flags, packages := range map[string][]string{
		"-tags=" + tags:  {"./cmd/podconfigd", "./cmd/podexecd", "./internal/simruntime/simruntimed"},
		"-ldflags=-s -w": {"./test/sample"}, // the only file of its image
	} {
		cmd := exec.Command("go", append([]string{"build", flags, "-o", dir + "/"}, packages...)...)
		cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the binaries: %v\n%s", err, out)
		}
	}
	builds.dirs[tags] = dir
	return dir
}

// startNode starts a node for one test, and removes it when the test ends.
func startNode(t *testing.T, config devnode.Config) *devnode.Node {
	t.Helper()
	// Not t.TempDir: sockets need a short path.
	dir, err := os.MkdirTemp("", "survival-node")
	if err != nil {
		t.Fatal(err)
	}
	config.Dir, config.Log = dir, t.Output()
	node := rig.Need(t, func() (*devnode.Node, error) { return devnode.Start(t.Context(), config) })
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the daemons' logs are in %s", node.Path("log"))
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return node
}
