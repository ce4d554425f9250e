package execsvc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/declared"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simnode"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

func TestMain(m *testing.M) { simtest.Main(m) }

// eventually waits until ok, and fails the test if that takes too long.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("timed out: %s", what)
		}
	}
}

// node has the state that survives a restart of the agent: the container runtime and the disk.
type node struct {
	*simnode.Node
	t                *testing.T
	podsDir, logsDir string
	// name is the node's name. It is set before the first start.
	name string
	// allocatable is the node's allocatable; nil: unbounded. It is set before the first start.
	allocatable v1.ResourceList
	// cgroups configures the pods' cgroups. They have none if it isn't set before the first start.
	cgroups cgroup.Config
	// housekeeping is the agents' Config.HousekeepingPeriod.
	housekeeping time.Duration
	// plugins are additional plugins of volumes. They are set before the first start.
	plugins []volume.Plugin
	// maxRemovals is the agents' Config.MaxRemovalsPerMinute.
	maxRemovals int

	mu sync.Mutex
	// final is the agents' Config.Final.
	final func(*v1.Pod) bool
	// can has the features of the container runtime.
	can admit.Runtime
	// declared are the features that the node declares.
	declared declared.Features
	// answer has the features that the runtime reports to askRuntime; nil: they are those of can.
	answer *admit.Runtime
	// runtimeNode is what containers' resources depend on.
	runtimeNode criconfig.Node
	// retryPause is the agents' Config.RetryPause.
	retryPause time.Duration
	// network is the error of the network, or nil.
	network error
	// pressure is why pods are rejected under pressure.
	pressure admit.Rejection
	// changes are the calls that start, stop or remove a sandbox or container, failed ones too: "RunPodSandbox UID",
	// "StopContainer ID GRACE", and only the method of others.
	changes []string
}

func newNode(t *testing.T) *node {
	t.Helper()
	root := t.TempDir()
	n := &node{t: t, retryPause: 20 * time.Millisecond, housekeeping: housekeepingPeriod, podsDir: filepath.Join(root, "pods"), logsDir: filepath.Join(root, "log", "pods")}
	n.Node = simnode.New(t, simruntime.Config{Fault: n.record})
	return n
}

// record is simruntime's Config.Fault. It records the changes, and fails no call.
func (n *node) record(_ context.Context, method string, req any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch r := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		n.changes = append(n.changes, "RunPodSandbox "+r.GetConfig().GetMetadata().GetUid())
	case *runtimeapi.StopContainerRequest:
		n.changes = append(n.changes, fmt.Sprintf("StopContainer %s %d", r.GetContainerId(), r.GetTimeout()))
	case *runtimeapi.UpdateContainerResourcesRequest:
		n.changes = append(n.changes, fmt.Sprintf("UpdateContainerResources %s %d shares %d bytes",
			r.GetContainerId(), r.GetLinux().GetCpuShares(), r.GetLinux().GetMemoryLimitInBytes()))
	case *runtimeapi.CreateContainerRequest, *runtimeapi.StartContainerRequest, *runtimeapi.RemoveContainerRequest,
		*runtimeapi.StopPodSandboxRequest, *runtimeapi.RemovePodSandboxRequest:
		n.changes = append(n.changes, method)
	}
	return nil
}

func (n *node) setNetwork(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.network = err
}

// setRuntime sets the features of the container runtime.
func (n *node) setRuntime(can admit.Runtime) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.can = can
}

// askRuntime is an agent's Config.AskRuntime.
func (n *node) askRuntime(context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answer != nil {
		n.can = *n.answer
	}
}

// admits is an agent's Config.Node.
func (n *node) admits() admit.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return admit.Node{Name: n.name, Allocatable: n.allocatable, Runtime: n.can, Declared: n.declared}
}

// checkNetwork is an agent's Config.Network.
func (n *node) checkNetwork(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.network
}

// pressed is an agent's Config.Pressure.
func (n *node) pressed(pod *v1.Pod) (admit.Rejection, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pressure, n.pressure.Reason == admit.NodeShutdown || n.pressure.Reason != "" && !podmeta.SparedByEviction(pod)
}

// takeChanges returns the changes since the last call.
func (n *node) takeChanges() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.changes
	n.changes = nil
	return out
}

// seenChanges returns the changes since takeChanges.
func (n *node) seenChanges() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.changes)
}

// wantUnchanged checks that nothing was started, stopped or removed since takeChanges.
func (n *node) wantUnchanged() {
	n.t.Helper()
	if got := n.takeChanges(); len(got) > 0 {
		n.t.Fatalf("the calls were %q; want nothing", got)
	}
}

// wantLeft checks how many sandboxes and containers the runtime has, dead ones too.
func (n *node) wantLeft(sandboxes, containers int) {
	n.t.Helper()
	if b, c := n.Left(); b != sandboxes || c != containers {
		n.t.Fatalf("the runtime has %d sandboxes and %d containers; want %d and %d", b, c, sandboxes, containers)
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}
