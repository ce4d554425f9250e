package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
)

const (
	// The pause after a watch that failed doubles from the first to the last, of which up to half is left out at random: not all nodes come back
	// to a server at once. The last one is no longer than a status interval: by the watch it is known that the cluster took the node for dead.
	firstWatchBackoff, lastWatchBackoff = time.Second, 10 * time.Second
	// watchFor is how long one watch lasts at least, and at most twice as long. A server that hasn't ended it watchGrace later hangs.
	watchFor, watchGrace = 5 * time.Minute, 30 * time.Second
)

// watch follows the object until ctx ends. For one object a reflector and its store would be more than is needed.
func (n *Node) watch(ctx context.Context) {
	t := &trouble{log: n.log, what: "the Node can't be watched; trying again", end: "the Node is watched again"}
	backoff := firstWatchBackoff
	for ctx.Err() == nil {
		err := n.follow(ctx, func() { t.is(nil) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			backoff = firstWatchBackoff
		} else {
			t.is(err)
		}
		pause(ctx, backoff-rand.N(backoff/2), nil) //nolint:gosec // It keeps no secret.
		backoff = min(2*backoff, lastWatchBackoff)
	}
}

// follow lists and then watches, until the server ends that, and calls begun once it watches. It never takes up where the last watch ended: to list
// one object costs nothing, and a server that was set back to a backup is noticed by it.
func (n *Node) follow(ctx context.Context, begun func()) error {
	nodes := n.cfg.Client.CoreV1().Nodes()
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, n.cfg.Name).String()
	listing, cancel := n.callContext(ctx)
	defer cancel()
	list, err := nodes.List(listing, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return fmt.Errorf("list the Node: %w", err)
	}
	n.listed(list.Items)
	seconds := int64((watchFor + rand.N(watchFor)).Seconds()) //nolint:gosec // It keeps no secret.
	watching, stop := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+watchGrace)
	defer stop()
	w, err := nodes.Watch(watching, metav1.ListOptions{FieldSelector: only, ResourceVersion: list.ResourceVersion, TimeoutSeconds: &seconds})
	if err != nil {
		return fmt.Errorf("watch the Node: %w", err)
	}
	defer w.Stop()
	begun()
	for {
		select {
		case event, more := <-w.ResultChan():
			if !more {
				return nil
			}
			if event.Type == watch.Error {
				return fmt.Errorf("watch the Node: %w", apierrors.FromObject(event.Object))
			}
			node, ok := event.Object.(*v1.Node)
			switch {
			case !ok:
				return fmt.Errorf("watch the Node: it is told of a %T", event.Object)
			case event.Type == watch.Deleted:
				n.gone(node)
			default:
				n.changed(node, n.see)
			}
		case <-watching.Done():
			return watching.Err()
		}
	}
}

// listed takes the object from a list, in which it may be missing.
func (n *Node) listed(items []v1.Node) {
	if len(items) > 0 {
		n.changed(&items[0], n.seeAnew)
	} else if seen := n.Node(); seen != nil {
		n.gone(seen)
	}
}

// changed takes the object as it is now. What others have decided about the node is acted upon at once.
func (n *Node) changed(node *v1.Node, see func(*v1.Node)) {
	before := n.Node()
	see(node)
	if before == nil || !slices.Equal(before.Spec.PodCIDRs, node.Spec.PodCIDRs) || before.Spec.Unschedulable != node.Spec.Unschedulable ||
		nodestatus.Condition(&node.Status, v1.NodeReady) == v1.ConditionUnknown {
		n.Wake()
	}
}
