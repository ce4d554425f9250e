package node

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/gentype"
	"k8s.io/utils/ptr"
)

const (
	// A lease is renewed renewShare times within its duration.
	renewShare = 4
	// renewJitter is the random part that is added to the interval, so that nodes don't all renew at once.
	renewJitter = 0.04
	// renewTries is the number of attempts in one interval, without pauses.
	renewTries = 5
	// After a failure to read or create the lease, the pause doubles from firstLeaseBackoff to lastLeaseBackoff.
	firstLeaseBackoff, lastLeaseBackoff = 200 * time.Millisecond, 7 * time.Second
)

// errNoNode: without the Node a lease would have no owner, so none is created.
var errNoNode = errors.New("the Node isn't known")

// renew keeps the lease until ctx ends, as the kubelet does.
func (n *Node) renew(ctx context.Context) {
	interval := n.cfg.LeaseDuration / renewShare
	r := &renewer{
		node: n, leases: n.cfg.Client.Leases(v1.NamespaceNodeLease), timeout: interval,
		trouble: &trouble{
			log: n.log, what: "the node's lease can't be renewed; the cluster will consider the node dead", end: "the node's lease is renewed again",
		},
	}
	wait.JitterUntilWithContext(ctx, r.sync, interval, renewJitter, true)
}

// renewer renews the lease. One goroutine uses it.
type renewer struct {
	node    *Node
	leases  *gentype.Client[*coordinationv1.Lease]
	timeout time.Duration // of one call
	trouble *trouble
	// latest is the lease as it was read or written last. Nil: it must be read.
	latest *coordinationv1.Lease
}

// sync renews the lease, or creates it.
func (r *renewer) sync(ctx context.Context) {
	// As a rule nothing else writes the lease, so that it need not be read.
	if r.latest != nil && r.update(ctx) {
		return
	}
	if created := r.read(ctx); !created && r.latest != nil {
		r.update(ctx)
	}
}

// update writes the lease with a new time. It reports whether it has.
func (r *renewer) update(ctx context.Context) bool {
	for range renewTries {
		if r.latest == nil || ctx.Err() != nil {
			return false
		}
		next, err := r.next(r.latest.DeepCopy())
		if err != nil {
			return false
		}
		written, err := r.write(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
			return r.leases.Update(ctx, next, metav1.UpdateOptions{})
		})
		switch {
		case err == nil:
			r.latest = written
			return true
		case apierrors.IsConflict(err):
			r.read(ctx)
		}
	}
	return false
}

// read reads the lease, and creates it if it doesn't exist, until that succeeds or ctx ends. It sets latest to nil if
// there is no lease. It reports whether it has created the lease.
func (r *renewer) read(ctx context.Context) (created bool) {
	for backoff := firstLeaseBackoff; ; backoff = min(2*backoff, lastLeaseBackoff) {
		var err error
		if r.latest, created, err = r.ensure(ctx); err == nil || ctx.Err() != nil {
			return created
		}
		pause(ctx, backoff, nil)
	}
}

// ensure returns the lease, and creates it if it doesn't exist. It returns nil if the lease would have no owner.
func (r *renewer) ensure(ctx context.Context) (lease *coordinationv1.Lease, created bool, err error) {
	calling, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	lease, err = r.leases.Get(calling, r.node.cfg.Name, metav1.GetOptions{})
	if err == nil {
		return lease, false, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, false, err
	}
	first, err := r.next(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: r.node.cfg.Name, Namespace: v1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &r.node.cfg.Name},
	})
	if err != nil {
		return nil, false, nil // It is created once the Node is known.
	}
	lease, err = r.write(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return r.leases.Create(ctx, first, metav1.CreateOptions{})
	})
	if err != nil {
		return nil, false, err
	}
	return lease, true, nil
}

// next sets the lease's time, duration and owner. The owner is the Node, so that the lease is deleted with it. A lease of
// an earlier Node of that name is adopted.
func (r *renewer) next(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	node := r.node.Node()
	if node == nil {
		return nil, errNoNode
	}
	l.Spec.LeaseDurationSeconds = ptr.To(int32(r.node.cfg.LeaseDuration.Seconds()))
	l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	l.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID,
	}}
	return l, nil
}

// write makes a call that changes the lease, with a time limit, and reports its result.
func (r *renewer) write(ctx context.Context, call func(context.Context) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	calling, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	lease, err := call(calling)
	if ctx.Err() == nil {
		r.trouble.is(err)
	}
	return lease, err
}
