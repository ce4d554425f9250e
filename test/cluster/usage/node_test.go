package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/devnode"
)

// kubeletConfig is a node's, as installers write it, but without thresholds that the disk of a busy machine might pass.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
port: %d
healthzPort: 0
authentication:
  x509: {clientCAFile: %q}
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, nodefs.inodesFree: 1%%, imagefs.available: 1%%}
imageGCHighThresholdPercent: 100
%s`

// node is a pair of daemons on the site's machine. Both may be killed and started again.
type node struct {
	site *site
	// machine runs its pods: the site's, except that two kubelets can't share one, where each takes the other's pods for its own leftovers.
	machine *devnode.Node
	// name is the node's name; those of two nodes of a run must differ, since what was on the first one stays until the machine goes.
	name string
	// config is added to its KubeletConfiguration, podexecdFlags to podexecd's flags.
	config        string
	podexecdFlags []string
	// joins is set where it gets no credentials but has to ask for them.
	joins bool

	// manifests is the directory of its static pods.
	manifests            string
	port                 int
	podconfigd, podexecd *devnode.Process
}

// newNode starts a node that the test has for itself, and waits until it is ready. It ends with the test.
func newNode(t *testing.T, name string, with ...func(*node)) *node {
	t.Helper()
	n := &node{site: here, machine: here.machine, name: name}
	if *kubelet != "" {
		n.machine = get(here.newMachine(t.Context(), name))(t)
		t.Cleanup(func() { must(t, n.machine.Close()) })
	}
	for _, f := range with {
		f(n)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.tails())
		}
		must(t, n.kill())
		here.kubectl(t, "delete", "node", n.name, "--ignore-not-found")
	})
	must(t, n.launch())
	if err := n.awaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) path(elements ...string) string {
	return n.machine.Path(append([]string{n.name}, elements...)...)
}

func (n *node) kubeconfig() string { return n.path("kubeconfig") }

// launch starts it for the first time.
func (n *node) launch() error {
	ports, err := control.FreePorts(1)
	if err != nil {
		return err
	}
	n.port, n.manifests = ports[0], n.path("manifests")
	if err := os.MkdirAll(n.manifests, 0o755); err != nil {
		return err
	}
	config := fmt.Sprintf(kubeletConfig, n.port, n.site.plane.Authority.File, n.config)
	if *kubelet != "" {
		config += fmt.Sprintf("podLogsDir: %q\nfailCgroupV1: false\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\n", n.path("log", "pods"))
	}
	if err := os.WriteFile(n.path("config.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	if !n.joins {
		if err := n.writeCredentials(); err != nil {
			return err
		}
	}
	if *kubelet != "" {
		return n.startKubelet()
	}
	both := []string{"--kubeconfig", n.kubeconfig(), "--config", n.path("config.yaml"), "--hostname-override", n.name}
	n.podconfigd, err = n.machine.StartDaemonAs(n.name+"-podconfigd", "podconfigd", slices.Concat([]string{
		"--root-dir", n.path("podconfigd"), "--listen", n.configEndpoint(), "--pod-manifest-path", n.manifests}, both)...)
	if err != nil {
		return err
	}
	n.podexecd, err = n.machine.StartDaemonAs(n.name+"-podexecd", "podexecd", slices.Concat([]string{
		"--root-dir", n.path("podexecd"), "--listen", "unix://" + n.machine.Socket(n.name+"-exec"),
		"--podconfig-endpoint", n.configEndpoint(), "--container-runtime-endpoint", n.machine.Endpoint(),
		"--pod-logs-dir", n.path("log", "pods"), "--node-ip", n.site.ip}, both, n.podexecdFlags)...)
	return err
}

// startKubelet starts a kubelet as both daemons.
func (n *node) startKubelet() (err error) {
	n.podexecd, err = n.machine.StartDaemonAs(n.name+"-kubelet", "kubelet", slices.Concat([]string{
		"--kubeconfig", n.kubeconfig(), "--config", n.path("config.yaml"), "--hostname-override", n.name, "--root-dir", n.path("kubelet"),
		"--cert-dir", n.path("kubelet", "pki"), "--container-runtime-endpoint", n.machine.Endpoint(), "--pod-manifest-path", n.manifests,
		"--node-ip", n.site.ip, "--fail-swap-on=false", "--make-iptables-util-chains=false",
	}, n.podexecdFlags)...)
	n.podconfigd = n.podexecd
	return err
}

// writeCredentials writes the kubeconfig of a node that is a member already.
func (n *node) writeCredentials() error {
	credentials, err := n.site.plane.Authority.Issue("system:node:"+n.name, "system:nodes", time.Now().Add(control.CertificateLife))
	if err != nil {
		return err
	}
	if err := control.ReplaceFile(n.path("node.pem"), credentials); err != nil {
		return err
	}
	return n.site.plane.Authority.WriteKubeconfig(n.kubeconfig(), n.site.plane.URL, n.path("node.pem"))
}

func (n *node) configEndpoint() string { return "unix://" + n.machine.Socket(n.name+"-config") }

// restart kills a daemon of the node with SIGKILL and starts it again.
func restart(t *testing.T, daemon *devnode.Process) {
	t.Helper()
	must(t, daemon.Kill())
	must(t, daemon.Start())
}

// kill ends both daemons; the node's pods run on until the machine is closed.
func (n *node) kill() error {
	var errs []error
	for _, daemon := range []*devnode.Process{n.podexecd, n.podconfigd} {
		if daemon != nil {
			errs = append(errs, daemon.Kill())
		}
	}
	return errors.Join(errs...)
}

// awaitReady waits until the API server is told that the node is ready.
func (n *node) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a daemon that has ended won't tell it
		select {
		case <-n.podexecd.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := await(ctx, n.site.nodes(), "node "+n.name+" is ready", func(nodes map[string]*corev1.Node) error {
		node := nodes[n.name]
		if node == nil {
			return errors.New("there is no such node")
		}
		if c := nodeCondition(node, corev1.NodeReady); c == nil || c.Status != corev1.ConditionTrue {
			return fmt.Errorf("its condition Ready is %+v", c)
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady {
				return fmt.Errorf("it has the taint %s", taint.ToString())
			}
		}
		return nil
	})
	return err
}

func nodeCondition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// tails are the ends of the daemons' logs, for messages.
func (n *node) tails() string {
	text := ""
	for _, daemon := range []*devnode.Process{n.podconfigd, n.podexecd} {
		if daemon != nil {
			text += fmt.Sprintf("the output of %s ends with:\n%s\n", daemon.Name, daemon.LogTail())
		}
	}
	return text
}

// addManifest puts a static pod on the node, or a new version of it.
func (n *node) addManifest(t *testing.T, name, manifest string) {
	t.Helper()
	must(t, control.ReplaceFile(filepath.Join(n.manifests, name+".yaml"), []byte(manifest)))
}

// running tells whether the runtime says that a container runs. id is as in a pod's status.
func (n *node) running(t *testing.T, id string) bool {
	t.Helper()
	conn := get(grpc.NewClient(n.machine.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	response := get(runtimeapi.NewRuntimeServiceClient(conn).ListContainers(t.Context(), &runtimeapi.ListContainersRequest{
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
	must(t, os.Remove(filepath.Join(n.manifests, name+".yaml")))
}

// write writes a file of the node.
func (n *node) write(t *testing.T, name, content string) {
	t.Helper()
	must(t, os.WriteFile(n.path(name), []byte(content), 0o644))
}

// untilEnded waits until a container doesn't run any more; the runtime can only be asked.
func (n *node) untilEnded(t *testing.T, id string) error {
	t.Helper()
	return untilNil(t, "container "+id+" has ended", func() error { return when(!n.running(t, id)) })
}
