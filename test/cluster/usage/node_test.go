package usage

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/cluster/nodes"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// node is a node of the site. Both of its daemons may be killed and started again.
type node struct {
	*nodes.Node
	site *site
}

// newNode starts a separate node for the test, and waits until it is ready. It ends with the test.
func newNode(t *testing.T, name string, with ...func(*node)) *node {
	t.Helper()
	n := here.nodeOn(here.machine, name)
	if *kubelet != "" {
		n.Machine = rig.Get(here.newMachine(t.Context(), name))(t)
		t.Cleanup(func() { rig.Must(t, n.Machine.Close()) })
	}
	for _, f := range with {
		f(n)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.Tails())
		}
		rig.Must(t, n.Kill())
		here.kubectl(t, "delete", "node", n.Name, "--ignore-not-found")
	})
	rig.Must(t, n.Launch())
	if err := n.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// apart gives a node a machine of its own, which ends after the node. A kubelet has one in any case.
func apart(t *testing.T) func(*node) {
	return func(n *node) {
		if *kubelet == "" {
			n.Machine = rig.Get(here.newMachine(t.Context(), n.Name))(t)
			t.Cleanup(func() { rig.Must(t, n.Machine.Close()) })
		}
	}
}

// byKubelet has a kubelet be the node, on a machine of its own.
func byKubelet(t *testing.T) func(*node) {
	return func(n *node) {
		if *kubelet == "" {
			n.Kubelet = filepath.Join(here.tools, "kubelet")
		}
		apart(t)(n)
	}
}

// restart kills a daemon of the node with SIGKILL and starts it again.
func restart(t *testing.T, daemon *devnode.Process) {
	t.Helper()
	rig.Must(t, daemon.Kill())
	rig.Must(t, daemon.Start())
}

func nodeCondition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// addManifest adds a static pod to the node, or a new version of it.
func (n *node) addManifest(t *testing.T, name, manifest string) {
	t.Helper()
	rig.Must(t, control.ReplaceFile(filepath.Join(n.Manifests, name+".yaml"), []byte(manifest)))
}

// running reports whether a container runs, according to the runtime. id is as in a pod's status.
func (n *node) running(t *testing.T, id string) bool {
	t.Helper()
	conn := rig.Get(grpc.NewClient(n.Machine.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	response := rig.Get(runtimeapi.NewRuntimeServiceClient(conn).ListContainers(t.Context(), &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}},
	}))(t)
	for _, c := range response.GetContainers() {
		if "containerd://"+c.GetId() == id {
			return true
		}
	}
	return false
}

func (n *node) removeManifest(t *testing.T, name string) {
	t.Helper()
	rig.Must(t, os.Remove(filepath.Join(n.Manifests, name+".yaml")))
}

// write writes a file of the node.
func (n *node) write(t *testing.T, name, content string) {
	t.Helper()
	rig.Must(t, os.WriteFile(n.Path(name), []byte(content), 0o644))
}

// untilEnded waits until a container no longer runs. It polls the runtime.
func (n *node) untilEnded(t *testing.T, id string) error {
	t.Helper()
	return untilNil(t, "container "+id+" has ended", func() error { return when(!n.running(t, id)) })
}
