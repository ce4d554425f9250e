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
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
)

const (
	// The pause after a registration that failed doubles from the first to the last.
	firstBackoff, lastBackoff = 100 * time.Millisecond, 7 * time.Second
	// tries is how often in one round a post is tried that meets another Node than the one it was made for.
	tries = 5
	// floor is the time between two posts, once the node has been ready.
	floor = time.Second
	// imagesFresh is how long the list of images is used, and imagesTimeout how long one may take.
	imagesFresh, imagesTimeout = 30 * time.Second, 5 * time.Second
	// assignTimeout is how long the container runtime may take for the pods' address ranges.
	assignTimeout = 5 * time.Second
)

// keep registers and posts until ctx ends.
func (n *Node) keep(ctx context.Context) {
	registerBackoff, postBackoff := firstBackoff, floor
	for ctx.Err() == nil {
		if n.Node() == nil {
			err := n.register(ctx)
			if ctx.Err() != nil {
				return
			}
			n.registering.is(err)
			if err != nil {
				pause(ctx, registerBackoff, nil)
				registerBackoff = min(2*registerBackoff, lastBackoff)
				continue
			}
			registerBackoff = firstBackoff
		}
		err := n.post(ctx)
		if ctx.Err() != nil {
			return
		}
		n.posting.is(err)
		switch {
		case err != nil:
			pause(ctx, min(postBackoff, n.cfg.UpdateFrequency), nil)
			postBackoff *= 2
			postBackoff = min(postBackoff, n.cfg.UpdateFrequency)
		case n.wasReady:
			postBackoff = floor
			pause(ctx, floor, nil)
			pause(ctx, n.cfg.UpdateFrequency-floor, n.woken)
		default:
			// The first time that it is ready is told without delay.
			postBackoff = floor
			pause(ctx, n.cfg.UpdateFrequency, n.woken)
		}
	}
}

// pause waits for a while, or until there is a value in wake.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// post brings the status up to date, if it isn't or if it is time to. What the cache has of the Node is tried first, then what the API server has.
func (n *Node) post(ctx context.Context) error {
	facts, node := n.facts(ctx), n.Node()
	if node == nil {
		// It was deleted a moment ago.
		return nil
	}
	n.assign(ctx, node)
	ctx, cancel := n.callContext(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err := n.postOver(ctx, node, facts)
		switch {
		case apierrors.IsNotFound(err):
			n.gone(node)
			return err
		case !apierrors.IsConflict(err) || try == tries:
			return err
		}
		if node, err = n.cfg.Client.CoreV1().Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("get the Node: %w", err)
		}
		n.see(node)
	}
}

// postOver posts the status if it differs from the node's, or if it is time to.
func (n *Node) postOver(ctx context.Context, node *v1.Node, facts nodestatus.Facts) error {
	n.doubling.is(n.otherMachine(&node.Status.NodeInfo))
	next := node.DeepCopy()
	n.mark(next)
	next.Status = nodestatus.Of(facts, node.Status, time.Now())
	changed := nodestatus.Changed(&node.Status, &next.Status)
	if changed && node.ResourceVersion == n.version && !nodestatus.Changed(&n.wanted, &next.Status) {
		// The API server leaves out what it doesn't know: to post that again would change nothing.
		changed = false
	}
	changed = changed || !maps.Equal(node.Labels, next.Labels) || !maps.Equal(node.Annotations, next.Annotations)
	n.tellCordon(node)
	if !changed && time.Since(n.reported) < n.cfg.ReportFrequency+n.delay {
		n.noteReady(&next.Status)
		return nil
	}
	posted, err := n.patch(ctx, node, next)
	if err != nil {
		return fmt.Errorf("patch the Node's status: %w", err)
	}
	if changed || n.reported.IsZero() {
		n.delay = n.newDelay()
	} else {
		n.delay = 0
	}
	n.reported, n.wanted, n.version = time.Now(), next.Status, posted.ResourceVersion
	n.see(posted)
	n.noteReady(&next.Status)
	n.tell(nodestatus.Events(n.cfg.Name, &node.Status, &next.Status))
	return nil
}

// otherMachine is an error if the status isn't this machine's, though it was when it was last posted. The kubelet doesn't notice: the machines
// take the Node from each other for good.
func (n *Node) otherMachine(info *v1.NodeSystemInfo) error {
	if mine := n.wanted.NodeInfo.BootID; mine == "" || info.BootID == "" || info.BootID == mine {
		return nil
	}
	return fmt.Errorf("the status that was there is of the machine with system UUID %q and boot ID %s", info.SystemUUID, info.BootID)
}

// noteReady notes that the API server knows this status.
func (n *Node) noteReady(s *v1.NodeStatus) {
	n.wasReady = n.wasReady || nodestatus.Condition(s, v1.NodeReady) == v1.ConditionTrue
}

// newDelay spreads the reports of many nodes.
func (n *Node) newDelay() time.Duration {
	return time.Duration((rand.Float64() - 0.5) * float64(n.cfg.ReportFrequency)) //nolint:gosec // It keeps no secret.
}

// callContext bounds the calls of one round.
func (n *Node) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, n.cfg.UpdateFrequency)
}

func (n *Node) tell(events []nodestatus.Event) {
	for _, e := range events {
		n.cfg.Event(e)
	}
}

// tellCordon tells when somebody has closed the node for new pods, or opened it.
func (n *Node) tellCordon(node *v1.Node) {
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

// assign passes on the pods' address ranges, if they are others than before.
func (n *Node) assign(ctx context.Context, node *v1.Node) {
	cidrs := strings.Join(node.Spec.PodCIDRs, ",")
	if n.cfg.PodCIDRs == nil || cidrs == "" || cidrs == n.podCIDRs {
		return
	}
	// Of its own, so that a runtime that hangs doesn't take the time in which the status tells of that.
	ctx, cancel := context.WithTimeout(ctx, assignTimeout)
	defer cancel()
	err := n.cfg.PodCIDRs(ctx, cidrs)
	n.assigning.is(err)
	if err == nil {
		n.podCIDRs = cidrs
	}
}

// facts gathers what the status is made of.
func (n *Node) facts(ctx context.Context) nodestatus.Facts {
	f := nodestatus.Facts{
		Hostname: n.cfg.Hostname, ExternalCloud: n.cfg.ExternalCloud, NodeIP: len(n.cfg.NodeIPs) > 0, Info: n.cfg.Info(),
		KubeletVersion: n.cfg.KubeletVersion, Port: n.cfg.Port, MaxImages: *n.cfg.MaxImages, DeclaredFeatures: n.cfg.DeclaredFeatures,
		Runtime: n.cfg.Runtime(), Pressure: n.cfg.Pressure(), NotReady: n.cfg.NotReady(),
	}
	if n.cfg.IPs != nil {
		var err error
		f.IPs, err = n.cfg.IPs(ctx)
		n.addressing.is(err)
	}
	f.Images = n.imagesNow(ctx, f.Runtime)
	return f
}

// imagesNow are the images on the node, as they were half a minute ago at most, or the last that are known. A runtime that is in trouble isn't
// asked: the status is what tells of it, and doesn't wait.
func (n *Node) imagesNow(ctx context.Context, r nodestatus.Runtime) []*runtimeapi.Image {
	now := time.Now()
	if n.cfg.Images == nil || n.images != nil && now.Sub(n.imagesAt) < imagesFresh || r.Down(now) {
		return n.images
	}
	ctx, cancel := context.WithTimeout(ctx, imagesTimeout)
	defer cancel()
	// Whatever comes of it, it isn't asked for again at once.
	n.imagesAt = now
	if images, err := n.cfg.Images(ctx); err == nil {
		n.images = slices.Clip(append([]*runtimeapi.Image{}, images...))
	}
	return n.images
}
