package node

import (
	"context"
	"errors"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
)

const (
	// askPeriod is how often the runtime is asked, and eagerPeriod how often while a node that starts isn't ready, for eagerFor at most.
	askPeriod, eagerPeriod, eagerFor = 5 * time.Second, 200 * time.Millisecond, 2 * time.Minute
	// askTimeout is how long an answer may take.
	askTimeout = 15 * time.Second
	// versionFresh is how long a version is taken to be what it was, if the runtime has answered all the time.
	versionFresh = time.Minute
)

// RuntimeConfig says whom a RuntimeWatch asks.
type RuntimeConfig struct {
	// Status and Version are the calls of the CRI.
	Status  func(context.Context) (*runtimeapi.StatusResponse, error)
	Version func(context.Context) (*runtimeapi.VersionResponse, error)
	// PLEG is why what pods do can't be followed; it should be patient with single failures. Nil: it always can.
	PLEG func() error
	// Changed is called when the runtime can run pods and couldn't before, or the reverse, or can't for another reason. Nil: nobody is told.
	Changed func()
}

// RuntimeWatch knows how the container runtime is.
type RuntimeWatch struct {
	cfg RuntimeConfig

	mu      sync.Mutex
	state   nodestatus.Runtime
	version time.Time
}

// NewRuntimeWatch returns one that knows nothing yet.
func NewRuntimeWatch(cfg RuntimeConfig) *RuntimeWatch {
	if cfg.PLEG == nil {
		cfg.PLEG = func() error { return nil }
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	return &RuntimeWatch{cfg: cfg}
}

// State is what is known. The runtime isn't asked for it.
func (r *RuntimeWatch) State() nodestatus.Runtime {
	r.mu.Lock()
	state := r.state
	r.mu.Unlock()
	state.PLEG = r.cfg.PLEG()
	return state
}

// Run asks until ctx ends.
func (r *RuntimeWatch) Run(ctx context.Context) {
	began, last, ready := time.Now(), "nothing is known", false
	for ctx.Err() == nil {
		r.ask(ctx)
		now := time.Now()
		if text := errorsText(r.State().Errors(now)); text != last && ctx.Err() == nil {
			last, ready = text, ready || text == ""
			r.cfg.Changed()
		}
		period := askPeriod
		if !ready && now.Sub(began) < eagerFor {
			period = eagerPeriod
		}
		pause(ctx, period, nil)
	}
}

func errorsText(errs []error) string {
	if err := errors.Join(errs...); err != nil {
		return err.Error()
	}
	return ""
}

// ask takes the runtime's answer, if there is one. What it told before stands until it has been silent for too long.
func (r *RuntimeWatch) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := r.cfg.Status(ctx)
	r.mu.Lock()
	next, asked := r.state, r.version
	r.mu.Unlock()
	if err != nil || status.GetStatus() == nil {
		asked = time.Time{}
	} else {
		next.Answered = time.Now()
		next.Ready, next.Network = condition(status, runtimeapi.RuntimeReady), condition(status, runtimeapi.NetworkReady)
		next.Handlers, next.Features = status.GetRuntimeHandlers(), status.GetFeatures()
		if time.Since(asked) >= versionFresh {
			if version, err := r.cfg.Version(ctx); err == nil {
				next.Name, next.Version, asked = version.GetRuntimeName(), version.GetRuntimeVersion(), time.Now()
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.version = next, asked
}

func condition(status *runtimeapi.StatusResponse, name string) *runtimeapi.RuntimeCondition {
	for _, c := range status.GetStatus().GetConditions() {
		if c.GetType() == name {
			return c
		}
	}
	return nil
}
