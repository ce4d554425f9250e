package node

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// A lease is renewed renewShare times within its duration.
const renewShare = 4

// errNoNode: without the Node a lease would have no owner, so none is created.
var errNoNode = errors.New("the Node isn't known")

// renew keeps the lease until ctx ends.
func (n *Node) renew(ctx context.Context) {
	interval := n.cfg.LeaseDuration / renewShare
	t := &trouble{
		log: n.log, what: "the node's lease can't be renewed; the cluster will consider the node dead", end: "the node's lease is renewed again",
	}
	client := leaseClient{Interface: n.cfg.Client, timeout: interval, trouble: t}
	controller := lease.NewController(clock.RealClock{}, client, n.cfg.Name, int32(n.cfg.LeaseDuration.Seconds()), nil, interval, n.cfg.Name,
		v1.NamespaceNodeLease, n.own)
	// The controller logs each failed attempt; trouble logs the first one.
	controller.Run(klog.NewContext(ctx, logr.Discard()))
}

// own sets the Node as the lease's owner, so that the lease is deleted with it. A lease of an earlier Node of that
// name is adopted.
func (n *Node) own(l *coordinationv1.Lease) error {
	node := n.Node()
	if node == nil {
		return errNoNode
	}
	l.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID,
	}}
	return nil
}

// leaseClient sets a time limit on calls about leases, and reports their results. The lease controller calls nothing
// else of a client.
type leaseClient struct {
	kubernetes.Interface
	timeout time.Duration
	trouble *trouble
}

// CoordinationV1 is part of kubernetes.Interface.
func (c leaseClient) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return leaseGroup{c.Interface.CoordinationV1(), c}
}

type leaseGroup struct {
	coordinationclient.CoordinationV1Interface
	client leaseClient
}

// Leases is part of CoordinationV1Interface.
func (g leaseGroup) Leases(namespace string) coordinationclient.LeaseInterface {
	return leases{g.CoordinationV1Interface.Leases(namespace), g.client}
}

type leases struct {
	coordinationclient.LeaseInterface
	client leaseClient
}

// Get is part of LeaseInterface. A missing lease is not an error to log.
func (l leases) Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, l.client.timeout)
	defer cancel()
	return l.LeaseInterface.Get(ctx, name, opts)
}

// Create is part of LeaseInterface.
func (l leases) Create(ctx context.Context, made *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.do(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.LeaseInterface.Create(ctx, made, opts)
	})
}

// Update is part of LeaseInterface.
func (l leases) Update(ctx context.Context, made *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.do(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.LeaseInterface.Update(ctx, made, opts)
	})
}

func (l leases) do(ctx context.Context, call func(context.Context) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	calling, cancel := context.WithTimeout(ctx, l.client.timeout)
	defer cancel()
	done, err := call(calling)
	if ctx.Err() == nil {
		l.client.trouble.is(err)
	}
	return done, err
}
