package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
)

const (
	// attachAnnotation tells the attach/detach controller that it is in charge of this node's volumes.
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// providedIPAnnotation tells an external cloud provider which addresses the node was given.
	providedIPAnnotation = "alpha.kubernetes.io/provided-node-ip"
	// uninitializedTaint keeps pods away until the external cloud provider has seen the node.
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
)

// managedLabels are set anew on a Node that was there before, if this node has a value for them.
var managedLabels = []string{
	v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion,
	v1.LabelInstanceTypeStable, v1.LabelInstanceType, v1.LabelOSStable, v1.LabelArchStable, kubeletapis.LabelOS, kubeletapis.LabelArch,
}

// register makes the Node object, or takes over the one that is there.
func (n *Node) register(ctx context.Context) error {
	initial := n.initial(ctx)
	ctx, cancel := n.callContext(ctx)
	defer cancel()
	if n.cfg.Register {
		created, err := n.create(ctx, initial)
		switch {
		case err == nil:
			n.reported, n.delay = time.Now(), n.newDelay()
			n.entered(created)
			n.tell(nodestatus.Events(n.cfg.Name, &v1.NodeStatus{}, &created.Status))
			return nil
		// Who may not make it may still be allowed to keep it.
		case !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err):
			return fmt.Errorf("create the Node: %w", err)
		}
		existing, getErr := n.cfg.Client.CoreV1().Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("create the Node: %w", err)
		}
		if existing, err = n.reconcile(ctx, initial, existing); err != nil {
			return err
		}
		n.entered(existing)
		return nil
	}
	existing, err := n.cfg.Client.CoreV1().Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("wait for somebody to create the Node: %w", err)
	}
	n.entered(existing)
	return nil
}

// entered notes that the Node object is there.
func (n *Node) entered(node *v1.Node) {
	n.see(node)
	select {
	case <-n.registered:
	default:
		close(n.registered)
	}
}

// create makes the object, without the labels that the API server doesn't let a node give itself.
func (n *Node) create(ctx context.Context, initial *v1.Node) (*v1.Node, error) {
	for {
		created, err := n.cfg.Client.CoreV1().Nodes().Create(ctx, initial, metav1.CreateOptions{})
		if err == nil || !n.refusedLabels(err, initial.Labels) {
			return created, err
		}
	}
}

// refusedLabels takes out the labels that the error is about, and tells of them once. It is false if the error is about none.
func (n *Node) refusedLabels(err error, labels map[string]string) bool {
	_, list, named := strings.Cut(errorText(err), "labels: ")
	if !apierrors.IsForbidden(err) || !named {
		return false
	}
	var refused []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if _, set := labels[name]; set {
			delete(labels, name)
			refused = append(refused, name)
		}
	}
	if slices.ContainsFunc(refused, func(name string) bool { return !n.refused[name] }) {
		n.log.Error("the API server doesn't let a node give itself these labels; the node goes without them", "labels", refused, "error", err)
	}
	for _, name := range refused {
		n.refused[name] = true
	}
	return len(refused) > 0
}

// errorText is what the API server said.
func errorText(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// initial is the object of a node that is new.
func (n *Node) initial(ctx context.Context) *v1.Node {
	facts := n.facts(ctx)
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.cfg.Name, Labels: maps.Clone(facts.Info.Labels)},
		Spec:       v1.NodeSpec{Taints: slices.Clone(n.cfg.Taints), ProviderID: n.cfg.ProviderID},
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.DeleteFunc(node.Labels, func(name, _ string) bool { return n.refused[name] })
	if n.cfg.ExternalCloud {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: uninitializedTaint, Value: "true", Effect: v1.TaintEffectNoSchedule})
	}
	if n.cfg.AttachDetach {
		node.Annotations = map[string]string{attachAnnotation: "true"}
	}
	n.mark(node)
	node.Status = nodestatus.Of(facts, node.Status, time.Now())
	return node
}

// mark sets the labels and annotations that a node always has.
func (n *Node) mark(node *v1.Node) {
	setKey(&node.Labels, v1.LabelOSStable, runtime.GOOS)
	setKey(&node.Labels, v1.LabelArchStable, runtime.GOARCH)
	var given []string
	for _, ip := range n.cfg.NodeIPs {
		if !ip.IsUnspecified() {
			given = append(given, ip.String())
		}
	}
	if n.cfg.ExternalCloud && len(given) > 0 {
		setKey(&node.Annotations, providedIPAnnotation, strings.Join(given, ","))
	} else {
		delete(node.Annotations, providedIPAnnotation)
	}
}

//nolint:gocritic // The map may have to be made.
func setKey(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// reconcile has the object that was there before say what this node is now.
func (n *Node) reconcile(ctx context.Context, initial, existing *v1.Node) (*v1.Node, error) {
	if had, has := existing.Spec.ProviderID, initial.Spec.ProviderID; has != "" && had != has {
		n.log.Warn("the Node that was there has another provider ID; it stays", "provider_id", had, "configured", has)
	}
	wanted := existing.DeepCopy()
	adopt(initial, wanted)
	if n.reset {
		resetExtended(wanted)
	}
	for {
		patched, err := n.patch(ctx, existing, wanted)
		if err == nil {
			n.reset = false
			return patched, nil
		}
		known := len(n.refused)
		if !n.refusedLabels(err, wanted.Labels) || len(n.refused) == known {
			return nil, fmt.Errorf("reconcile the Node that was there: %w", err)
		}
		for name := range n.refused {
			if value, had := existing.Labels[name]; had {
				wanted.Labels[name] = value
			}
		}
	}
}

// adopt gives an existing Node the labels and the annotation that this node has. Its status is posted right after.
func adopt(initial, existing *v1.Node) {
	for _, name := range managedLabels {
		value, has := initial.Labels[name]
		switch {
		case has && value != "":
			setKey(&existing.Labels, name, value)
		case has:
			delete(existing.Labels, name)
		}
	}
	if value, has := initial.Annotations[attachAnnotation]; has {
		setKey(&existing.Annotations, attachAnnotation, value)
	} else {
		delete(existing.Annotations, attachAnnotation)
	}
}

// resetExtended zeroes the resources that Kubernetes doesn't know itself.
func resetExtended(node *v1.Node) {
	for name := range node.Status.Capacity {
		if nodestatus.Extended(name) {
			node.Status.Capacity[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
}
