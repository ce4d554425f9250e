package world

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// atOnce is how many pods run at a time: nearly all of them wait nearly all of the time.
const atOnce = 8

// patience bounds every wait; the machine may be slow and busy.
var patience = rig.Patience(60 * time.Second)

// namedRuntime is a runtime and the name of its subtests.
type namedRuntime struct {
	name string
	kind devnode.Runtime
}

// The runtimes that tests run on. Rows run on both containerds if the runtime makes what the process finds: its users,
// limits, mounts and network. The rest is made by podexecd alone, and the latest shows it.
var (
	latest      = []namedRuntime{{"containerd-2", devnode.Containerd2}}
	containerds = append(slices.Clone(latest), namedRuntime{"containerd-1.7", devnode.Containerd17})
)

func TestMain(m *testing.M) {
	code := rig.Main(m, start, func() error { return errors.Join(closeBenches(), nodes.close()) })
	lacking.print()
	os.Exit(code)
}

func start() error {
	if err := rig.Parallel(atOnce); err != nil {
		return err
	}
	return nodes.build()
}

// on runs the test on each of the runtimes, on the shared bench.
func on(t *testing.T, runtimes []namedRuntime, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, r := range runtimes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			test(t, shared(t, r.kind))
		})
	}
}

// onOwnBench runs the test on each of the runtimes, on a separate bench; flags are podexecd's.
func onOwnBench(t *testing.T, runtimes []namedRuntime, flags []string, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, r := range runtimes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b, err := newBench(ownNode(t, r.kind), flags...)
			check(t, err)
			t.Cleanup(func() { check(t, b.close()) })
			test(t, b)
		})
	}
}

// ownNode returns a node on which no other podexecd subscribes to the runtime's events, because containerd 1.7 sends
// each event to one subscriber only.
func ownNode(t *testing.T, kind devnode.Runtime) *devnode.Node {
	t.Helper()
	if kind != devnode.Containerd17 {
		return startNode(t, kind, nodes.shared)
	}
	node := startNode(t, kind, nodes.start)
	t.Cleanup(func() { check(t, node.Close()) })
	return node
}

func startNode(t *testing.T, kind devnode.Runtime, start func(devnode.Runtime) (*devnode.Node, error)) *devnode.Node {
	t.Helper()
	return rig.Need(t, func() (*devnode.Node, error) { return start(kind) })
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
