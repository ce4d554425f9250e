package node

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

const (
	// After a failed registration the pause doubles from firstBackoff to lastBackoff.
	firstBackoff, lastBackoff = 100 * time.Millisecond, 7 * time.Second
	// tries is the number of attempts in one round at a post that conflicts because the Node has been replaced.
	tries = 5
	// floor is the least time between two posts, once the node has been ready.
	floor = time.Second
	// imagesFresh is how long a list of images is used, and imagesTimeout the time limit for reading one.
	imagesFresh, imagesTimeout = 30 * time.Second, 5 * time.Second
	// assignTimeout is the time limit for the container runtime to apply the pods' address ranges.
	assignTimeout = 5 * time.Second
)

// keep registers and posts until ctx ends.
func (n *Node) keep(ctx context.Context) {
	registering, posting := newRegisterBackoff(), n.newPostBackoff()
	for ctx.Err() == nil {
		if n.Node() == nil {
			err := n.register(ctx)
			if ctx.Err() != nil {
				return
			}
			n.registering.is(err)
			n.setFailing(err != nil)
			if err != nil {
				pause(ctx, registering.Step(), nil)
				continue
			}
			registering = newRegisterBackoff()
		}
		err := n.post(ctx)
		if ctx.Err() != nil {
			return
		}
		n.posting.is(err)
		n.setFailing(err != nil)
		switch {
		case err != nil:
			pause(ctx, posting.Step(), nil)
		case n.wasReady:
			posting = n.newPostBackoff()
			pause(ctx, floor, nil)
			pause(ctx, n.cfg.UpdateFrequency-floor, n.woken)
		default:
			// The first ready status is posted without delay.
			posting = n.newPostBackoff()
			pause(ctx, n.cfg.UpdateFrequency, n.woken)
		}
	}
}

// newRegisterBackoff returns the pauses after failed registrations.
func newRegisterBackoff() wait.Backoff {
	return wait.Backoff{Duration: firstBackoff, Factor: 2, Steps: 10, Cap: lastBackoff}
}

// newPostBackoff returns the pauses after failed posts.
func (n *Node) newPostBackoff() wait.Backoff {
	return wait.Backoff{Duration: min(floor, n.cfg.UpdateFrequency), Factor: 2, Steps: 10, Cap: n.cfg.UpdateFrequency}
}

// pause waits for d, or until wake has a value.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// post posts the status if it has changed, or if a report is due. It tries first with the Node in the cache, then
// with the API server's.
func (n *Node) post(ctx context.Context) error {
	facts, node := n.facts(ctx), n.Node()
	if node == nil {
		// It has just been deleted.
		return nil
	}
	facts.VolumesInUse = n.cfg.InUse.list(node.Status.VolumesInUse)
	n.assign(ctx, node)
	ctx, cancel := n.callContext(ctx)
	defer cancel()
	for try := 1; ; try++ {
		has, err := n.postOver(ctx, node, facts)
		switch {
		case err == nil:
			n.cfg.InUse.report(has.Status.VolumesInUse)
			return nil
		case apierrors.IsNotFound(err):
			n.gone(node)
			return err
		case !apierrors.IsConflict(err) || try == tries:
			return err
		}
		if node, err = n.cfg.Client.Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("get the Node: %w", err)
		}
		n.see(node)
	}
}

// postOver posts the status if it differs from the node's, or if a report is due. It returns the Node as the API server has
// it then.
func (n *Node) postOver(ctx context.Context, node *v1.Node, facts nodestatus.Facts) (*v1.Node, error) {
	n.doubling.is(n.otherMachine(&node.Status.NodeInfo))
	next := node.DeepCopy()
	n.mark(next)
	next.Status = nodestatus.Of(facts, node.Status, time.Now())
	changed := nodestatus.Changed(&node.Status, &next.Status)
	if changed && node.ResourceVersion == n.version && !nodestatus.Changed(&n.wanted, &next.Status) {
		// The API server drops fields that it doesn't have: posting them again would change nothing.
		changed = false
	}
	changed = changed || !maps.Equal(node.Labels, next.Labels) || !maps.Equal(node.Annotations, next.Annotations)
	n.recordCordon(node)
	if !changed && time.Since(n.reported) < n.cfg.ReportFrequency+n.delay {
		n.noteReady(&next.Status)
		return node, nil
	}
	posted, err := n.patch(ctx, node, next)
	if err != nil {
		// The patch may still arrive. The next post changes the object in any case, so that a patch which removes volumes from
		// volumesInUse conflicts then.
		n.reported = time.Time{}
		return nil, fmt.Errorf("patch the Node's status: %w", err)
	}
	if changed || n.reported.IsZero() {
		n.delay = n.newDelay()
	} else {
		n.delay = 0
	}
	n.reported, n.wanted, n.version = time.Now(), next.Status, posted.ResourceVersion
	n.see(posted)
	n.noteReady(&next.Status)
	n.report(nodestatus.Events(n.cfg.Name, &node.Status, &next.Status))
	return posted, nil
}

// otherMachine returns an error if another machine has changed the status since this one last posted it. The kubelet
// doesn't detect this: the two machines overwrite each other's status forever.
func (n *Node) otherMachine(info *v1.NodeSystemInfo) error {
	if mine := n.wanted.NodeInfo.BootID; mine == "" || info.BootID == "" || info.BootID == mine {
		return nil
	}
	return fmt.Errorf("the existing status is from the machine with system UUID %q and boot ID %s", info.SystemUUID, info.BootID)
}

// noteReady records whether the API server has a ready status of this node.
func (n *Node) noteReady(s *v1.NodeStatus) {
	n.wasReady = n.wasReady || nodestatus.Condition(s, v1.NodeReady) == v1.ConditionTrue
	if n.wasReady {
		n.startup.ready()
	}
}

// newDelay returns a random delay, which spreads the reports of many nodes.
func (n *Node) newDelay() time.Duration {
	return time.Duration((rand.Float64() - 0.5) * float64(n.cfg.ReportFrequency)) //nolint:gosec // Not for security.
}

// callContext sets the time limit for the calls of one round.
func (n *Node) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, n.cfg.UpdateFrequency)
}

func (n *Node) report(events []nodestatus.Event) {
	for _, e := range events {
		n.cfg.Event(e)
	}
}

// recordCordon records an event if the node was cordoned or uncordoned.
func (n *Node) recordCordon(node *v1.Node) {
	if node.Spec.Unschedulable == n.cordoned {
		return
	}
	n.cordoned = node.Spec.Unschedulable
	reason := "NodeSchedulable"
	if n.cordoned {
		reason = "NodeNotSchedulable"
	}
	n.cfg.Event(nodestatus.StatusEvent(n.cfg.Name, reason))
}

// assign gives the pods' address ranges to the container runtime if they have changed.
func (n *Node) assign(ctx context.Context, node *v1.Node) {
	cidrs := strings.Join(node.Spec.PodCIDRs, ",")
	if n.machine.PodCIDRs == nil || cidrs == "" || cidrs == n.podCIDRs {
		return
	}
	// It has its own time limit, so that a runtime that hangs doesn't delay the status that reports it.
	ctx, cancel := context.WithTimeout(ctx, assignTimeout)
	defer cancel()
	err := n.machine.PodCIDRs(ctx, cidrs)
	n.assigning.is(err)
	if err == nil {
		n.podCIDRs = cidrs
	}
}

// facts gathers the input of the status.
func (n *Node) facts(ctx context.Context) nodestatus.Facts {
	f := nodestatus.Facts{
		Hostname: n.cfg.Hostname, ExternalCloud: n.cfg.ExternalCloud, NodeIP: len(n.cfg.NodeIPs) > 0, Info: n.machine.Info(),
		LocalStorage: n.cfg.LocalStorage, KubeletVersion: n.cfg.KubeletVersion, Port: n.cfg.Port,
		MaxImages: *n.cfg.MaxImages,
		Runtime:   n.machine.Runtime(), Pressure: n.machine.Pressure(), NotReady: n.cfg.NotReady(),
	}
	f.DeclaredFeatures = n.cfg.DeclaredFeatures(f.Runtime.Features)
	if n.cfg.IPs != nil {
		var err error
		f.IPs, err = n.cfg.IPs(ctx)
		n.addressing.is(err)
	}
	f.Images = n.imagesNow(ctx, f.Runtime)
	return f
}

// imagesNow returns the images on the node, at most 30 s old, or the last ones that could be read. It doesn't call a
// runtime that is down, so that the status that reports it isn't delayed.
func (n *Node) imagesNow(ctx context.Context, r nodestatus.Runtime) []*runtimeapi.Image {
	now := time.Now()
	if n.machine.Images == nil || n.images != nil && now.Sub(n.imagesAt) < imagesFresh || r.Down(now) {
		return n.images
	}
	ctx, cancel := context.WithTimeout(ctx, imagesTimeout)
	defer cancel()
	// Even after an error it isn't called again at once.
	n.imagesAt = now
	if images, err := n.machine.Images(ctx); err == nil {
		n.images = slices.Clip(append([]*runtimeapi.Image{}, images...))
	}
	return n.images
}
