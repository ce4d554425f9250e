package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

const (
	// After a failed watch the pause doubles from firstWatchBackoff to lastWatchBackoff. Up to half of it is left out at random, so that
	// nodes don't all reconnect at once. The longest one isn't longer than a status interval: the watch shows that the cluster considers
	// the node dead.
	firstWatchBackoff, lastWatchBackoff = time.Second, 10 * time.Second
	// A watch lasts from watchFor to twice as long. If the server hasn't ended it watchGrace later, the server
	// hangs.
	watchFor, watchGrace = 5 * time.Minute, 30 * time.Second
)

// watch follows the object until ctx ends. For one object a reflector with a store isn't needed.
func (n *Node) watch(ctx context.Context) {
	t := &trouble{log: n.log, what: "the Node can't be watched; trying again", end: "the Node is watched again"}
	pauses := newWatchBackoff()
	for ctx.Err() == nil {
		err := n.follow(ctx, func() { t.is(nil) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			pauses = newWatchBackoff()
		} else {
			t.is(err)
		}
		pause(ctx, pauses.Step(), nil)
	}
}

// newWatchBackoff returns the pauses after watches. The jitter adds up to the half that is random.
func newWatchBackoff() wait.Backoff {
	return wait.Backoff{Duration: firstWatchBackoff / 2, Factor: 2, Jitter: 1, Steps: 10, Cap: lastWatchBackoff / 2}
}

// follow lists, then watches until the server ends the watch, and calls begun once it watches. It always lists
// first: listing one object is cheap, and shows if the server was restored from a backup.
func (n *Node) follow(ctx context.Context, begun func()) error {
	nodes := n.cfg.Client.Nodes()
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
				return fmt.Errorf("watch the Node: received a %T", event.Object)
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

// listed stores the object of a list, which may lack it.
func (n *Node) listed(items []v1.Node) {
	if len(items) > 0 {
		n.changed(&items[0], n.seeAgain)
	} else if seen := n.Node(); seen != nil {
		n.gone(seen)
	}
}

// changed stores the object. Changes that others have made to it are acted upon at once.
func (n *Node) changed(node *v1.Node, see func(*v1.Node)) {
	before := n.Node()
	see(node)
	if before == nil || !equality.Semantic.DeepEqual(before.Status.VolumesAttached, node.Status.VolumesAttached) {
		n.cfg.Attached()
	}
	if before == nil || !slices.Equal(before.Spec.PodCIDRs, node.Spec.PodCIDRs) || before.Spec.Unschedulable != node.Spec.Unschedulable ||
		nodestatus.Condition(&node.Status, v1.NodeReady) == v1.ConditionUnknown {
		n.Wake()
	}
}
