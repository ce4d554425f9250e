package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/devnode"
)

// kubeletConfig is a node's configuration, like one that installers write, but without thresholds that the disk
// of a busy machine may pass.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
port: %d
healthzPort: 0
authentication:
  x509: {clientCAFile: %q}
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, nodefs.inodesFree: 1%%, imagefs.available: 1%%}
imageGCHighThresholdPercent: 100
%s`

// Node is a pair of daemons on a machine. Both may be killed and started again.
type Node struct {
	// Machine runs its pods. Pairs of daemons can share one. Two kubelets can't, because each removes the
	// other's pods.
	Machine *devnode.Node
	// Name is the node's name. Two nodes of a run need different names, because the first one's pods stay until
	// the machine is closed.
	Name string
	// Config is added to its KubeletConfiguration, and PodexecdFlags to the flags of podexecd, or of the
	// kubelet. PodconfigdFlags are added to the flags of podconfigd.
	Config          string
	PodexecdFlags   []string
	PodconfigdFlags []string
	// Kubelet is the path of a kubelet that is this node, in place of both daemons. Empty means that of the cluster, if it has one.
	Kubelet string
	// Joins is set if it has no credentials, and must request them.
	Joins bool

	// Port is the port of its API. Zero means a free port, which is set when it is launched.
	Port int

	// Manifests is the directory of its static pods. It is set when it is launched.
	Manifests string
	// Podconfigd and Podexecd are the daemons. If a kubelet is the node, both are the kubelet.
	Podconfigd, Podexecd *devnode.Process

	cluster *Cluster
	// sysctls are the machine's settings before a kubelet changed them, by path.
	sysctls map[string][]byte
}

// NewNode describes a node of the cluster, to be launched.
func (c *Cluster) NewNode(machine *devnode.Node, name string) *Node {
	return &Node{cluster: c, Machine: machine, Name: name}
}

// Path returns the path of a file of the node.
func (n *Node) Path(elements ...string) string {
	return n.Machine.Path(append([]string{n.Name}, elements...)...)
}

// Kubeconfig returns the path of the node's kubeconfig.
func (n *Node) Kubeconfig() string { return n.Path("kubeconfig") }

// Launch starts it for the first time.
func (n *Node) Launch() error {
	if n.Port == 0 {
		ports, err := control.FreePorts(1)
		if err != nil {
			return err
		}
		n.Port = ports[0]
	}
	n.Manifests = n.Path("manifests")
	if err := os.MkdirAll(n.Manifests, 0o755); err != nil {
		return err
	}
	config := fmt.Sprintf(kubeletConfig, n.Port, n.cluster.Plane.Authority.File, n.Config)
	isKubelet := n.Kubelet != "" || n.cluster.config.Kubelet != ""
	if isKubelet {
		config += n.kubeletConfig()
	}
	if err := os.WriteFile(n.Path("config.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	if !n.Joins {
		if err := n.WriteCredentials(); err != nil {
			return err
		}
	}
	if isKubelet {
		return n.startKubelet()
	}
	both := []string{"--kubeconfig", n.Kubeconfig(), "--config", n.Path("config.yaml"), "--hostname-override", n.Name}
	var err error
	n.Podconfigd, err = n.Machine.StartDaemonAs(n.Name+"-podconfigd", "podconfigd", slices.Concat([]string{
		"--root-dir", n.Path("podconfigd"), "--listen", n.ConfigEndpoint(), "--pod-manifest-path", n.Manifests}, both, n.PodconfigdFlags)...)
	if err != nil {
		return err
	}
	n.Podexecd, err = n.Machine.StartDaemonAs(n.Name+"-podexecd", "podexecd", slices.Concat([]string{
		"--root-dir", n.Path("podexecd"), "--kubelet-dir", n.Path("kubelet"), "--listen", n.ExecEndpoint(),
		"--podconfig-endpoint", n.ConfigEndpoint(), "--container-runtime-endpoint", n.Machine.Endpoint(),
		"--pod-logs-dir", n.Path("log", "pods"), "--node-ip", n.cluster.IP}, both, n.PodexecdFlags)...)
	return err
}

// WriteCredentials writes the kubeconfig of a node that is already a member.
func (n *Node) WriteCredentials() error {
	authority := n.cluster.Plane.Authority
	credentials, err := authority.Issue("system:node:"+n.Name, "system:nodes", time.Now().Add(control.CertificateLife))
	if err != nil {
		return err
	}
	if err := control.ReplaceFile(n.Path("node.pem"), credentials); err != nil {
		return err
	}
	return authority.WriteKubeconfig(n.Kubeconfig(), n.cluster.Plane.URL, n.Path("node.pem"))
}

// ConfigEndpoint returns the endpoint of its podconfigd.
func (n *Node) ConfigEndpoint() string { return "unix://" + n.Machine.Socket(n.Name+"-config") }

// ExecEndpoint returns the endpoint of its podexecd.
func (n *Node) ExecEndpoint() string { return "unix://" + n.Machine.Socket(n.Name+"-exec") }

// Kill ends both daemons. The node's pods run until the machine is closed.
func (n *Node) Kill() error {
	var errs []error
	for _, daemon := range n.Daemons() {
		errs = append(errs, daemon.Kill())
	}
	return errors.Join(append(errs, n.restoreSysctls())...)
}

// Daemons returns the daemons that were launched: none, both, or the kubelet.
func (n *Node) Daemons() []*devnode.Process {
	daemons := slices.DeleteFunc([]*devnode.Process{n.Podexecd, n.Podconfigd}, func(p *devnode.Process) bool { return p == nil })
	return slices.Compact(daemons)
}

// End ends the daemons that run with SIGTERM.
func (n *Node) End() error {
	for _, daemon := range n.Daemons() {
		select {
		case <-daemon.Done():
		default:
			if err := daemon.Stop(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Relaunch ends the daemons that run, and starts all with the configuration in a file.
func (n *Node) Relaunch(config string) error {
	if err := n.End(); err != nil {
		return err
	}
	daemons := n.Daemons()
	slices.Reverse(daemons) // podconfigd first
	for _, daemon := range daemons {
		daemon.Args[slices.Index(daemon.Args, "--config")+1] = config
		if err := daemon.Start(); err != nil {
			return err
		}
	}
	return nil
}

// AwaitReady waits until the API server has the node as ready, so that pods can be scheduled to it.
func (n *Node) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // a daemon that has ended doesn't report it
		select {
		case <-n.Podexecd.Done():
			cancel(fmt.Errorf("%s has ended", n.Podexecd.Name))
		case <-ctx.Done():
		}
	}()
	err := control.Until(ctx, nil, "node "+n.Name+" is ready", func(ctx context.Context) error {
		node, err := n.cluster.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return ready(node)
	})
	return errors.Join(err, context.Cause(ctx))
}

// ready returns nil if pods can be scheduled to the node.
func ready(node *corev1.Node) error {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return fmt.Errorf("it has the taint %s", taint.ToString())
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
}

// Tails returns the ends of the daemons' logs, for messages.
func (n *Node) Tails() string {
	text := ""
	for _, daemon := range n.Daemons() {
		text += fmt.Sprintf("the output of %s ends with:\n%s\n", daemon.Name, daemon.LogTail())
	}
	return text
}

// CgroupRoot returns the cgroup below which the agent's pods are.
func (n *Node) CgroupRoot() string { return filepath.Join(n.Machine.CgroupRoot(), n.Podexecd.Name) }
