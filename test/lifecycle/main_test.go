package lifecycle

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// atOnce is how many tests run at a time: nearly all of them wait nearly all of the time.
const atOnce = 10

// The runtimes that tests run on. A test runs on both containerds if their behaviour is a part of its promise: images,
// streams, the ends of processes, and restarts of podexecd. Otherwise only podexecd decides, and the latest shows it.
var (
	latestContainerd = []namedRuntime{{"containerd-2", devnode.Containerd2}}
	containerds      = append(slices.Clone(latestContainerd), namedRuntime{"containerd-1.7", devnode.Containerd17})
	latest           = append(slices.Clone(latestContainerd), namedRuntime{"sim", devnode.Sim})
	all              = append(slices.Clone(containerds), namedRuntime{"sim", devnode.Sim})
)

// namedRuntime is a runtime and the name of its subtests.
type namedRuntime struct {
	name string
	kind devnode.Runtime
}

// nodes are the runtimes. benches are the pairs of daemons that tests share on them.
var (
	nodes   *rig.Nodes
	benches = map[devnode.Runtime]*sharedBench{devnode.Containerd2: {}, devnode.Containerd17: {}, devnode.Sim: {}}
)

type sharedBench struct {
	once  sync.Once
	bench *bench
	err   error
}

func TestMain(m *testing.M) { os.Exit(rig.Main(m, start, closeAll)) }

func start() (err error) {
	if rig.Raced { // one containerd shows the daemons' races
		containerds, all = latestContainerd, latest
	}
	klog.SetLogger(klog.Logger{}) // client-go's streams log every connection that ends
	if err := rig.Parallel(atOnce); err != nil {
		return err
	}
	nodes, err = rig.NewNodes(os.Stderr)
	return err
}

func closeAll() error {
	var errs []error
	for _, r := range all {
		if b := benches[r.kind].bench; b != nil {
			errs = append(errs, b.clear(), b.close())
		}
	}
	if commonHub != nil {
		commonHub.close()
	}
	return errors.Join(append(errs, nodes.Close())...)
}

// on runs the test on each of the runtimes, in parallel with the other tests, on the shared bench.
func on(t *testing.T, runtimes []namedRuntime, test func(t *testing.T, b *bench)) {
	t.Parallel()
	for _, r := range runtimes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			test(t, share(t, r.kind))
		})
	}
}

// onOwnBench runs the test on each of the runtimes, on a separate bench; flags are podexecd's.
func onOwnBench(t *testing.T, runtimes []namedRuntime, flags []string, test func(t *testing.T, b *bench)) {
	t.Parallel()
	for _, r := range runtimes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			test(t, ownBench(t, r.kind, flags...))
		})
	}
}

// ownBench returns a bench on that runtime. It is closed when the test ends.
func ownBench(t *testing.T, kind devnode.Runtime, flags ...string) *bench {
	t.Helper()
	start := nodes.Node
	if kind == devnode.Containerd17 {
		// containerd 1.7 sends each event to one subscriber only, so two podexecds can't share it.
		start = func(kind devnode.Runtime) (*devnode.Node, error) {
			node, err := nodes.New(kind)
			if err == nil {
				t.Cleanup(func() { check(t, node.Close()) })
			}
			return node, err
		}
	}
	b, err := newBench(startNode(t, kind, start), kind, flags...)
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("podexecd's log ends with:\n%s", b.Podexecd.LogTail())
		}
		if err := errors.Join(b.clear(), b.close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// share returns the shared bench of that runtime.
func share(t *testing.T, kind devnode.Runtime) *bench {
	t.Helper()
	node := startNode(t, kind, nodes.Node)
	shared := benches[kind]
	shared.once.Do(func() { shared.bench, shared.err = newBench(node, kind) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.bench
}

func startNode(t *testing.T, kind devnode.Runtime, start func(devnode.Runtime) (*devnode.Node, error)) *devnode.Node {
	t.Helper()
	return rig.Need(t, func() (*devnode.Node, error) { return start(kind) })
}

// patience is the time limit of every wait. The machine may be slow and busy.
var patience = rig.Patience(60 * time.Second)

// slack is the tolerance for durations on such a machine. It is short enough to distinguish them from a time limit of
// a minute.
const slack = 30 * time.Second

// eventually polls check until it returns nil, for conditions without an event to wait for.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := poll(check); err != nil {
		t.Fatalf("not within %v: %s: %v", patience, what, err)
	}
}

func poll(check func() error) error { return rig.Poll(patience, check) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
