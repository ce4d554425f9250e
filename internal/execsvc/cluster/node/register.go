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

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

const (
	// attachAnnotation makes the attach/detach controller responsible for this node's volumes.
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// providedIPAnnotation gives --node-ip to an external cloud provider.
	providedIPAnnotation = "alpha.kubernetes.io/provided-node-ip"
	// uninitializedTaint keeps pods away until the external cloud provider has initialized the node.
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
)

// managedLabels are set again on an existing Node, if this node has a value for them.
var managedLabels = []string{
	v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion,
	v1.LabelInstanceTypeStable, v1.LabelInstanceType, v1.LabelOSStable, v1.LabelArchStable, kubeletapis.LabelOS, kubeletapis.LabelArch,
}

// register creates the Node object, or adopts the existing one.
func (n *Node) register(ctx context.Context) error {
	initial := n.initial(ctx)
	ctx, cancel := n.callContext(ctx)
	defer cancel()
	if n.cfg.Register {
		n.startup.attempts()
		created, err := n.create(ctx, initial)
		switch {
		case err == nil:
			n.startup.created()
			n.reported, n.delay = time.Now(), n.newDelay()
			n.entered(created)
			n.report(nodestatus.Events(n.cfg.Name, &v1.NodeStatus{}, &created.Status))
			return nil
		// A client that may not create it may still be allowed to update it.
		case !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err):
			return fmt.Errorf("create the Node: %w", err)
		}
		existing, getErr := n.cfg.Client.Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("create the Node: %w", err)
		}
		if existing, err = n.reconcile(ctx, initial, existing); err != nil {
			return err
		}
		n.entered(existing)
		return nil
	}
	existing, err := n.cfg.Client.Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("wait for the Node to be created: %w", err)
	}
	n.entered(existing)
	return nil
}

// entered records that the Node object exists.
func (n *Node) entered(node *v1.Node) {
	n.see(node)
	select {
	case <-n.registered:
	default:
		close(n.registered)
	}
}

// create creates the object, without the labels that the API server doesn't let a node set on itself.
func (n *Node) create(ctx context.Context, initial *v1.Node) (*v1.Node, error) {
	for {
		created, err := n.cfg.Client.Nodes().Create(ctx, initial, metav1.CreateOptions{})
		if err == nil || !n.refusedLabels(err, initial.Labels) {
			return created, err
		}
	}
}

// refusedLabels removes the labels that the error is about, and logs them once. It returns false if the error is
// about none.
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
		n.log.Error("the API server doesn't let a node set these labels on itself; the node is registered without them", "labels", refused, "error", err)
	}
	for _, name := range refused {
		n.refused[name] = true
	}
	return len(refused) > 0
}

// errorText returns the API server's message.
func errorText(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// initial returns the object of a new node.
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

// mark sets the labels and annotations that every node has.
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

// reconcile updates the existing object to the values of this node.
func (n *Node) reconcile(ctx context.Context, initial, existing *v1.Node) (*v1.Node, error) {
	if had, has := existing.Spec.ProviderID, initial.Spec.ProviderID; has != "" && had != has {
		n.log.Warn("the existing Node has another provider ID, which is kept", "provider_id", had, "configured", has)
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
			return nil, fmt.Errorf("reconcile the existing Node: %w", err)
		}
		for name := range n.refused {
			if value, had := existing.Labels[name]; had {
				wanted.Labels[name] = value
			}
		}
	}
}

// adopt sets the labels and the annotation of this node on an existing Node. Its status is posted right after.
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

// resetExtended sets to zero the resources that Kubernetes doesn't define itself.
func resetExtended(node *v1.Node) {
	for name := range node.Status.Capacity {
		if nodestatus.Extended(name) {
			node.Status.Capacity[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
}
