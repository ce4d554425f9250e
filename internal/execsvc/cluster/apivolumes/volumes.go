package apivolumes

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

// Config configures a Volumes.
type Config struct {
	// Client bounds the rate of reads.
	Client *apiclient.Client
	// Node is this node's name.
	Node string
	// Attached returns the Node's volumesAttached, as last seen.
	Attached func() []v1.AttachedVolume
	// Wake has a pod synced again. It must not block.
	Wake func(types.UID)
	// Exceeded is called when an attachment has failed because the node can't have another volume of the driver. It reports whether
	// pods fail for that; it must not block. Nil: they wait.
	Exceeded func(driver string) bool
	// Clock is for the pauses. Nil: the real one.
	Clock clock.Clock
}

// Volumes reads claims and attachments. It is safe for concurrent use.
type Volumes struct {
	cfg         Config
	slots       chan struct{}
	claimed     *reads[Claimed]
	attachments *reads[*storagev1.VolumeAttachment]

	// ctx ends with Close, and group has all goroutines.
	ctx    context.Context //nolint:containedctx // It is that of goroutines that outlive the calls.
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	claims map[place]*held
	// followed are the claims that are read until they can be used.
	followed map[place]*followed
	// attachedChanged is closed, and replaced, when the Node's volumesAttached may have changed.
	attachedChanged chan struct{}
}

// New returns a Volumes. It reads nothing yet.
func New(cfg Config) *Volumes {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	v := &Volumes{
		cfg: cfg, slots: make(chan struct{}, maxReads), claims: map[place]*held{}, followed: map[place]*followed{},
		attachedChanged: make(chan struct{}),
	}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	v.claimed = newReads(v, v.getBound)
	v.attachments = newReads(v, v.getAttachment)
	return v
}

// Drop forgets the claims of a pod that is gone.
func (v *Volumes) Drop(uid types.UID) {
	v.mu.Lock()
	for at := range v.claims {
		if at.uid == uid {
			delete(v.claims, at)
		}
	}
	var left []*followed
	for at, f := range v.followed {
		if at.uid == uid {
			delete(v.followed, at)
			left = append(left, f)
		}
	}
	v.mu.Unlock()
	for _, f := range left {
		v.claimed.leave(f.name, &f.waiter)
	}
	v.claimed.release()
	v.attachments.release()
}

// Close ends the reads in the background, and waits for them.
func (v *Volumes) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.cancel()
	v.group.Wait()
}

// run runs f in a goroutine that Close waits for. After Close it returns false.
func (v *Volumes) run(f func()) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.group.Go(f)
	}
	return !v.closed
}

func (v *Volumes) getClaim(ctx context.Context, name types.NamespacedName) (*v1.PersistentVolumeClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	claim, err := v.cfg.Client.Claims(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	return sound(claim, err, name, func(c *v1.PersistentVolumeClaim) { c.ManagedFields = nil })
}

func (v *Volumes) getVolume(ctx context.Context, name types.NamespacedName) (*v1.PersistentVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	volume, err := v.cfg.Client.PersistentVolumes().Get(ctx, name.Name, metav1.GetOptions{})
	return sound(volume, err, name, func(p *v1.PersistentVolume) { p.ManagedFields = nil })
}

func (v *Volumes) getAttachment(ctx context.Context, name types.NamespacedName) (*storagev1.VolumeAttachment, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	attachment, err := v.cfg.Client.VolumeAttachments().Get(ctx, name.Name, metav1.GetOptions{})
	return sound(attachment, err, name, func(a *storagev1.VolumeAttachment) { a.ManagedFields = nil })
}

// sound returns the object that the API server answered with, without what isn't needed. Another object than the one that
// was asked for is an error.
func sound[T metav1.Object](object T, err error, name types.NamespacedName, cut func(T)) (T, error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case object.GetName() != name.Name || object.GetNamespace() != name.Namespace || object.GetUID() == "":
		return none, fmt.Errorf("the API server's response has another object than %s", name)
	}
	cut(object)
	return object, nil
}
