package node

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server and a node, whose state a test sets.
type world struct {
	api     *apiServer
	cfg     Config
	machine Machine
	// labels are those of --node-labels.
	labels map[string]string
	// noStorage is set if the size of the node's disk isn't known.
	noStorage bool

	mu       sync.Mutex
	network  bool
	pressure nodestatus.Pressure
	events   []string
	log      bytes.Buffer
}

// inWorld runs the test in a synctest bubble.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{api: newAPIServer(t), network: true}
		w.cfg = Config{
			Client: w.api.client(), Name: "n1", Hostname: "n1", Register: true, KubeletVersion: "v1.37.2-podstream", Port: 10250,
			IPs:          func(context.Context) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil },
			LocalStorage: true, Event: w.event, Logger: slog.New(slog.NewTextHandler(w, nil)),
		}
		w.machine = Machine{Info: w.info, Runtime: w.runtime, Pressure: w.isPressed}
		test(t, w)
	})
}

func (w *world) info() nodeinfo.Info {
	labels := map[string]string{"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux"}
	maps.Copy(labels, w.labels)
	list := v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("110")}
	if !w.noStorage {
		list[v1.ResourceEphemeralStorage] = resource.MustParse("10Gi")
	}
	return nodeinfo.Info{
		Labels: labels, Capacity: list, Allocatable: list,
		System: v1.NodeSystemInfo{BootID: "b1"},
	}
}

func (w *world) runtime() nodestatus.Runtime {
	w.mu.Lock()
	defer w.mu.Unlock()
	return nodestatus.Runtime{
		Name: "containerd", Version: "1.7.24", Answered: time.Now(), Ready: &runtimeapi.RuntimeCondition{Status: true},
		Network: &runtimeapi.RuntimeCondition{Status: w.network, Reason: "NetworkPluginNotReady"},
	}
}

func (w *world) isPressed() nodestatus.Pressure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pressure
}

func (w *world) event(e nodestatus.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e.Reason)
}

// Write receives the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// set changes the world.
func (w *world) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// run has a node run until the test ends.
func (w *world) run(t *testing.T) *Node {
	t.Helper()
	n := New(w.cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx, w.machine) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		synctest.Wait()
	})
	synctest.Wait()
	return n
}

// logged returns the number of log lines with the text.
func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

// takeEvents are the reasons of the events since the last time.
func (w *world) takeEvents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Clone(w.events)
	w.events = nil
	return out
}

// pass advances the time, and waits until due work is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// ready is the status of the condition at the server.
func ready(node *v1.Node) v1.ConditionStatus { return nodestatus.Condition(&node.Status, v1.NodeReady) }
