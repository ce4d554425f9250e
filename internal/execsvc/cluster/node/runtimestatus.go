package node

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

const (
	// askTimeout is the time limit for an answer.
	askTimeout = 15 * time.Second
	// versionFresh is how long a version is used, if the runtime has answered all the time.
	versionFresh = time.Minute
)

// RuntimeConfig has the calls of the CRI that a RuntimeStatus makes.
type RuntimeConfig struct {
	Status  func(context.Context) (*runtimeapi.StatusResponse, error)
	Version func(context.Context) (*runtimeapi.VersionResponse, error)
}

// RuntimeStatus asks the container runtime for its status, and keeps the last answer. It is safe for concurrent use.
type RuntimeStatus struct {
	cfg RuntimeConfig

	mu      sync.Mutex
	state   nodestatus.Runtime
	version time.Time
	// changes counts the answers that differ from the answer before in a way that RuntimeWatch reports.
	changes int
	// asking is the request that callers share. Nil: none is under way.
	asking *question
}

// question is one request to the runtime. It ends early only if every caller's context has ended.
type question struct {
	callers int
	cancel  context.CancelFunc
	done    chan struct{}
}

// NewRuntimeStatus returns a RuntimeStatus without an answer.
func NewRuntimeStatus(cfg RuntimeConfig) *RuntimeStatus { return &RuntimeStatus{cfg: cfg} }

// Last returns the last answer, without PLEG.
func (r *RuntimeStatus) Last() nodestatus.Runtime {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Ask asks the runtime now, for at most 15 seconds. Concurrent callers share one request, which doesn't depend on
// any one caller's context.
func (r *RuntimeStatus) Ask(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	q := r.join(ctx)
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	if r.leave(q) {
		<-q.done
	}
}

// join adds a caller to the current request, or starts one.
func (r *RuntimeStatus) join(ctx context.Context) *question {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asking == nil {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		q := &question{cancel: cancel, done: make(chan struct{})}
		r.asking = q
		go func() {
			defer close(q.done)
			r.ask(own)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.drop(q)
		}()
	}
	r.asking.callers++
	return r.asking
}

// leave removes a caller from the request, and reports whether it was the last. The request is canceled then.
func (r *RuntimeStatus) leave(q *question) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.callers--
	if q.callers > 0 {
		return false
	}
	r.drop(q)
	q.cancel()
	return true
}

// drop makes the next caller ask again. The caller holds mu.
func (r *RuntimeStatus) drop(q *question) {
	if r.asking == q {
		r.asking = nil
	}
}

// Await asks until the runtime has answered once.
func (r *RuntimeStatus) Await(ctx context.Context) error {
	for r.Ask(ctx); r.Last().Answered.IsZero(); r.Ask(ctx) {
		pause(ctx, eagerPeriod, nil)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// changed returns how many answers have differed from the answer before.
func (r *RuntimeStatus) changed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// isChange reports whether pods that waited after the first answer may run after the second. If the runtime stops
// answering, no pod may run that couldn't before.
func isChange(a, b nodestatus.Runtime) bool {
	return a.Silent && !b.Silent || a.Ready.GetStatus() != b.Ready.GetStatus() || a.Network.GetStatus() != b.Network.GetStatus() ||
		!sameAbilities(a, b)
}

// sameAbilities reports whether the runtime has the same features and handlers in both. Their order may differ in
// each answer.
func sameAbilities(a, b nodestatus.Runtime) bool {
	return proto.Equal(a.Features, b.Features) && maps.EqualFunc(byName(a.Handlers), byName(b.Handlers), sameHandler)
}

func byName(handlers []*runtimeapi.RuntimeHandler) map[string]*runtimeapi.RuntimeHandler {
	out := map[string]*runtimeapi.RuntimeHandler{}
	for _, h := range handlers {
		out[h.GetName()] = h
	}
	return out
}

func sameHandler(a, b *runtimeapi.RuntimeHandler) bool { return proto.Equal(a, b) }

// ask stores the runtime's answer, if there is one. The answer before stays valid until the runtime hasn't answered
// for too long. A request that was canceled says nothing about the runtime.
func (r *RuntimeStatus) ask(ctx context.Context) {
	status, err := r.cfg.Status(ctx)
	r.mu.Lock()
	next, asked := r.state, r.version
	r.mu.Unlock()
	next.Silent = err != nil || status.GetStatus() == nil
	if next.Silent {
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
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if isChange(r.state, next) {
		r.changes++
	}
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
