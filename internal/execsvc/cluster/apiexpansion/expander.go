package apiexpansion

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// The pauses after failures of volumes of running pods. A pod is synced every minute or so: that is the shortest one.
const (
	firstPause = 30 * time.Second
	lastPause  = 10 * time.Minute
	// requestLimit is the time limit of a request to the API server.
	requestLimit = 10 * time.Second
	// limit is how long an expansion for a running pod is awaited. Package storage repeats a call without an answer.
	limit = 5 * time.Minute
)

// Claims has the claims of pods' volumes: an apivolumes.Volumes.
type Claims interface {
	// Latest returns a claim as it was last read, and has it read again if it is old. It doesn't block.
	Latest(pod *v1.Pod, spec *v1.Volume) (apivolumes.Claimed, bool)
	// Read reads a claim.
	Read(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (apivolumes.Claimed, error)
	// Update replaces a claim by the API server's answer to a request.
	Update(claim *v1.PersistentVolumeClaim)
}

// Config configures an Expander. All fields but Clock and Log are needed.
type Config struct {
	Client *apiclient.Client
	Claims Claims
	// Node is this node's name.
	Node string
	// Expand has the driver expand the pod's volume, and returns when there is an answer. volume is its name in the pod.
	Expand func(ctx context.Context, uid types.UID, volume string, bytes int64) error
	// PodEvent and ClaimEvent record events. They must not block.
	PodEvent   func(pod *v1.Pod, eventType, reason, message string)
	ClaimEvent func(claim *v1.PersistentVolumeClaim, eventType, reason, message string)
	// Clock is for tests. Nil: the real one.
	Clock clock.PassiveClock
	// Log receives what no event has. Nil: the default logger.
	Log *slog.Logger
}

// Expander expands volumes. It is safe for concurrent use.
type Expander struct {
	cfg Config
	// ctx ends with Close, and group has all goroutines.
	ctx    context.Context //nolint:containedctx // It is that of goroutines that outlive the calls.
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	volumes map[types.UID]*volume
}

// volume is a PersistentVolume that pods of this node use.
type volume struct {
	pods map[types.UID]bool
	// has is the size that the volume has on this node, as far as is known. It is the claim's when it is first seen.
	has resource.Quantity
	// busy is closed when the expansion that is being made has ended. Nil: none is made.
	busy chan struct{}
	// inUse is set if the driver can't expand the volume while it is used, and failed if the last expansion failed for good.
	inUse, failed bool
	// failures counts failures for running pods, one after the other. None is tried before next.
	failures int
	next     time.Time
}

// New returns an Expander.
func New(cfg Config) *Expander {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	e := &Expander{cfg: cfg, volumes: map[types.UID]*volume{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Close ends the expansions of running pods, and waits for them.
func (e *Expander) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.group.Wait()
}

// Drop forgets a pod that is gone, and the volumes that only it used.
func (e *Expander) Drop(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for pv, v := range e.volumes {
		delete(v.pods, uid)
		if len(v.pods) == 0 && v.busy == nil {
			delete(e.volumes, pv)
		}
	}
}

// used returns the volume of a pod's claim. mu is held.
func (e *Expander) used(pod types.UID, c *apivolumes.Claimed) *volume {
	v := e.volumes[c.Volume.UID]
	if v == nil {
		v = &volume{pods: map[types.UID]bool{}, has: c.Claim.Status.Capacity[v1.ResourceStorage]}
		e.volumes[c.Volume.UID] = v
	}
	v.pods[pod] = true
	return v
}

// isReadOnly reports whether the pod uses the volume for reading only.
func isReadOnly(spec *v1.Volume) bool {
	return spec.PersistentVolumeClaim != nil && spec.PersistentVolumeClaim.ReadOnly
}

// isExpandable reports whether a volume is of a claim at the API server. Those of static pods are documents of their source.
func isExpandable(pod *v1.Pod, spec *v1.Volume) bool {
	_, ok := apivolumes.ClaimName(pod, spec)
	return ok && !podmeta.IsStatic(pod)
}

// Mounted expands a volume that was mounted for a pod whose containers wait, if its PersistentVolume is larger than its
// claim. An error keeps the pod waiting.
func (e *Expander) Mounted(ctx context.Context, pod *v1.Pod, spec *v1.Volume) error {
	if !isExpandable(pod, spec) {
		return nil
	}
	c, ok := e.cfg.Claims.Latest(pod, spec)
	if !ok {
		var err error
		if c, err = e.cfg.Claims.Read(ctx, pod, spec); err != nil {
			return err
		}
	}
	for {
		e.mu.Lock()
		v := e.used(pod.UID, &c)
		if !isSmaller(c.Claim.Status.Capacity, c.Volume.Spec.Capacity) {
			e.mu.Unlock()
			return nil
		}
		if busy := v.busy; busy != nil {
			// Another pod has it expanded.
			e.mu.Unlock()
			select {
			case <-busy:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			var err error
			if c, err = e.cfg.Claims.Read(ctx, pod, spec); err != nil {
				return err
			}
			continue
		}
		v.busy = make(chan struct{})
		e.mu.Unlock()
		err := e.expand(ctx, v, pod, spec)
		e.end(v, c.Volume.UID, nil)
		return err
	}
}

// Synced begins to expand a volume of a pod that runs, if its PersistentVolume is larger than what the node has. It doesn't
// wait.
func (e *Expander) Synced(pod *v1.Pod, spec *v1.Volume) {
	if !isExpandable(pod, spec) {
		return
	}
	c, ok := e.cfg.Claims.Latest(pod, spec)
	if !ok || isReadOnly(spec) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.used(pod.UID, &c)
	if v.has.IsZero() {
		v.has = c.Claim.Status.Capacity[v1.ResourceStorage]
	}
	wants := c.Volume.Spec.Capacity[v1.ResourceStorage]
	if e.closed || v.busy != nil || v.inUse || v.has.IsZero() || v.has.Cmp(wants) >= 0 || e.cfg.Clock.Now().Before(v.next) {
		return
	}
	v.busy = make(chan struct{})
	e.group.Go(func() {
		ctx, cancel := context.WithTimeout(e.ctx, limit)
		defer cancel()
		err := e.expand(ctx, v, pod, spec)
		if e.ctx.Err() != nil {
			err = nil
		}
		if err != nil {
			message := text("NodeExpandVolume.NodeExpandVolume failed", c.Volume.Name, ": "+err.Error())
			e.cfg.PodEvent(pod, v1.EventTypeWarning, events.VolumeResizeFailed, message)
		}
		e.end(v, c.Volume.UID, err)
	})
}

// end is called after an expansion for a volume.
func (e *Expander) end(v *volume, pv types.UID, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(v.busy)
	v.busy = nil
	if len(v.pods) == 0 && e.volumes[pv] == v {
		delete(e.volumes, pv)
	}
	if err == nil {
		v.failures, v.next = 0, time.Time{}
		return
	}
	pause := lastPause
	if v.failures < 5 {
		pause = min(firstPause<<v.failures, lastPause)
	}
	v.failures++
	v.next = e.cfg.Clock.Now().Add(pause)
}

// isSmaller reports whether a has less storage than b.
func isSmaller(a, b v1.ResourceList) bool {
	had, wants := a[v1.ResourceStorage], b[v1.ResourceStorage]
	return had.Cmp(wants) < 0
}
