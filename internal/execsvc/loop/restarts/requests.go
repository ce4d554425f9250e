package restarts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/failpoint"
)

// The bounds. A script may restart each pod of a large node once.
const (
	maxPods    = 512
	perSecond  = 2
	maxAtATime = 128
)

// Errors of Add.
var (
	// ErrTooMany is wrapped if a bound is exceeded.
	ErrTooMany = errors.New("too many restarts are requested")
	// ErrNotStored is wrapped if the request couldn't be stored. No container is restarted, unless podexecd ends at this
	// moment.
	ErrNotStored = errors.New("the request can't be stored, so no container is restarted")
	// ErrEnded is returned if the pod ended meanwhile.
	ErrEnded = errors.New("the pod is being ended")
)

// Store stores requests; it is a store.Store.
type Store interface {
	// SetRestart returns when the request is on disk.
	SetRestart(ctx context.Context, uid types.UID, r store.Restart) error
	DropRestart(uid types.UID)
}

// Config configures Requests.
type Config struct {
	Store Store
	// Restored are the pods' statuses when the store was opened: the requests in them continue.
	Restored map[types.UID]store.Status
	// Clock is for the rate. Nil means the real one.
	Clock clock.PassiveClock
}

// Requests are the requests that aren't complete, of all pods. It is safe for concurrent use.
type Requests struct {
	cfg     Config
	limiter *rate.Limiter
	// storing has room for the one request that is being stored.
	storing chan struct{}

	mu   sync.Mutex
	pods map[types.UID]actions.Requested
	// adding is the pod of the request that is being stored; empty if there is none, or the pod has ended meanwhile.
	adding types.UID
}

// New returns the Requests of a store.
func New(cfg Config) *Requests {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	r := &Requests{
		cfg: cfg, limiter: rate.NewLimiter(perSecond, maxAtATime), storing: make(chan struct{}, 1), pods: map[types.UID]actions.Requested{},
	}
	for uid, s := range cfg.Restored {
		if s.Restart != nil {
			r.pods[uid] = s.Restart.Containers
		}
	}
	return r
}

// Of returns the pod's requests. They must not be changed.
func (r *Requests) Of(uid types.UID) actions.Requested {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[uid]
}

// Add stores a request, and returns when it is on disk. ask returns the containers to restart, given those of the pod's
// earlier requests; Add returns its error. joined is set if the restart of all of them was pending already.
func (r *Requests) Add(
	ctx context.Context, uid types.UID, ask func(before actions.Requested) (actions.Requested, error),
) (asked actions.Requested, joined bool, err error) {
	if !r.limiter.AllowN(r.cfg.Clock.Now(), 1) {
		return nil, false, fmt.Errorf("%w: at most %d at once, and %d each second", ErrTooMany, maxAtATime, perSecond)
	}
	select {
	case r.storing <- struct{}{}:
	case <-ctx.Done():
		return nil, false, fmt.Errorf("%w: an earlier request is still being stored", ErrNotStored)
	}
	defer func() { <-r.storing }()
	before, err := r.begin(uid)
	if err != nil {
		return nil, false, err
	}
	after := before
	defer func() {
		if !r.end(uid, after) && err == nil {
			err = ErrEnded
		}
	}()
	if asked, err = ask(before); err != nil {
		return nil, false, err
	}
	merged := actions.Requested{}
	maps.Copy(merged, before)
	maps.Copy(merged, asked)
	if maps.Equal(merged, before) {
		return asked, true, nil
	}
	if err := r.cfg.Store.SetRestart(ctx, uid, store.Restart{Containers: merged}); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrNotStored, err)
	}
	failpoint.Reached(failpoint.RestartStored)
	after = merged
	return asked, false, nil
}

// begin returns the pod's earlier requests.
func (r *Requests) begin(uid types.UID) (actions.Requested, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.pods[uid]
	if !known && len(r.pods) >= maxPods {
		return nil, fmt.Errorf("%w: those of %d pods aren't complete", ErrTooMany, len(r.pods))
	}
	r.adding = uid
	return before, nil
}

// end sets the pod's requests, and returns false if the pod was dropped meanwhile.
func (r *Requests) end(uid types.UID, after actions.Requested) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := r.adding == uid
	r.adding = ""
	switch {
	case !there:
		// It may have been stored after the end.
		r.cfg.Store.DropRestart(uid)
	case len(after) > 0:
		r.pods[uid] = after
	}
	return there
}

// Settle deletes the pod's requests if pending returns that nothing of them is left to do. While another request for the
// pod is being stored, it leaves that to the next call.
func (r *Requests) Settle(uid types.UID, pending func(actions.Requested) actions.Requested) (done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	requested, there := r.pods[uid]
	if !there || r.adding == uid || len(pending(requested)) > 0 {
		return false
	}
	delete(r.pods, uid)
	r.cfg.Store.DropRestart(uid)
	return true
}

// Drop deletes the requests of a pod that ends.
func (r *Requests) Drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.adding == uid {
		r.adding = ""
	}
	delete(r.pods, uid)
	r.cfg.Store.DropRestart(uid)
}
