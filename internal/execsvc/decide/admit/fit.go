package admit

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// fit compares the pod with the node and its other pods (the kubelet's pkg/kubelet/lifecycle/predicate.go).
func (c *checker) fit(others []*v1.Pod) {
	short := shortages(c.pod, c.node.Allocatable, others)
	if !podmeta.Preempts(c.pod) {
		for _, s := range short {
			c.verdict.Rejected = append(c.verdict.Rejected, Rejection{Reason: OutOf + string(s.name), Message: s.String(), Transient: s.transient()})
		}
		c.place(others)
		return
	}
	// Other pods are preempted for a critical pod, unless it can't run here anyway.
	c.place(others)
	if len(c.verdict.Rejected) == 0 && len(short) > 0 {
		c.preempt(short, others)
	}
}

// place checks everything except resources.
func (c *checker) place(others []*v1.Pod) {
	pod, node := c.pod, v1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node.Name, Labels: c.node.Labels}}
	// An error means that the selector is invalid; it matches nothing then.
	if matches, _ := nodeaffinity.GetRequiredNodeAffinity(pod).Match(&node); !matches && node.Labels != nil {
		c.predicateFailed(NodeAffinity, "node(s) didn't match Pod's node affinity/selector", false)
	}
	if c.node.Name != "" && pod.Spec.NodeName != "" && pod.Spec.NodeName != c.node.Name {
		c.predicateFailed(NodeName, "node(s) didn't match the requested node name", false)
	}
	if portsConflict(pod, others) {
		c.predicateFailed(NodePorts, "node(s) didn't have free ports for the requested pod ports", true)
	}
	noExecute := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	_, repelled := corev1.FindMatchingUntoleratedTaint(klog.Logger{}, c.node.Taints, pod.Spec.Tolerations, noExecute, true)
	if repelled && !podmeta.IsStatic(pod) {
		c.predicateFailed(TaintToleration, "node(s) had taints that the pod didn't tolerate", false)
	}
}

func (c *checker) predicateFailed(name, why string, transient bool) {
	message := fmt.Sprintf("Predicate %s failed: %s", name, why)
	c.verdict.Rejected = append(c.verdict.Rejected, Rejection{Reason: name, Message: message, Transient: transient})
}

// portsConflict reports whether the pod needs a host port that another pod has.
func portsConflict(pod *v1.Pod, others []*v1.Pod) bool {
	wanted := hostPorts(pod)
	if len(wanted) == 0 {
		return false
	}
	return slices.ContainsFunc(others, func(o *v1.Pod) bool {
		return slices.ContainsFunc(hostPorts(o), func(has hostPort) bool { return slices.ContainsFunc(wanted, has.conflicts) })
	})
}

// hostPort is a port of the node; an empty ip stands for all addresses.
type hostPort struct {
	ip       string
	protocol v1.Protocol
	port     int32
}

func (p hostPort) conflicts(o hostPort) bool {
	return p.port == o.port && p.protocol == o.protocol && (p.ip == "" || o.ip == "" || p.ip == o.ip)
}

// hostPorts returns the ports that the pod has while it runs. Those of init containers count only if they are
// sidecars.
func hostPorts(pod *v1.Pod) []hostPort {
	var out []hostPort
	lasting := slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c v1.Container) bool {
		return !podmeta.IsSidecar(&c)
	})
	for _, c := range slices.Concat(lasting, pod.Spec.Containers) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := hostPort{ip: p.HostIP, protocol: p.Protocol, port: p.HostPort}
			if port.ip == "0.0.0.0" {
				port.ip = ""
			}
			if port.protocol == "" {
				port.protocol = v1.ProtocolTCP
			}
			out = append(out, port)
		}
	}
	return out
}
