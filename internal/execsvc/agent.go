package execsvc

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pleg"
	"github.com/podstream/podstream/internal/execsvc/podset"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/syncloop"
	"github.com/podstream/podstream/internal/execsvc/volume"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// Config says what an Agent works with.
type Config struct {
	Runtime *runtime.Runtime
	Volumes *volume.Manager
	// RuntimeName is the runtime's name, for container IDs in statuses ("containerd").
	RuntimeName string
	// HostIPs returns the node's addresses, the primary one first. Nil: none are shown.
	HostIPs func() []string
	// RelistPeriod, HousekeepingPeriod, ResyncPeriod and RetryPause have the kubelet's values for zero: 1 s, 2 s, 60 s, 10 s.
	RelistPeriod, HousekeepingPeriod, ResyncPeriod, RetryPause time.Duration
	// Clock is for all of them. Nil means the real one.
	Clock clock.WithTicker
	// Logger gets what the node's owner has to know. Nil discards.
	Logger *slog.Logger
}

// Agent runs pods. It implements syncloop.SyncHandler and worker.Syncer.
type Agent struct {
	cfg      Config
	log      *slog.Logger
	pods     *podset.Set
	statuses *status.Keeper
	pleg     *pleg.PLEG
	workers  *worker.Workers
	loop     *syncloop.Loop
	// waiting are desired pods that another pod keeps from being dispatched. Only the loop's goroutine uses it.
	waiting map[types.UID]bool
}

// New returns an Agent that isn't running.
func New(cfg Config) *Agent {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.HostIPs == nil {
		cfg.HostIPs = func() []string { return nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Agent{cfg: cfg, log: cfg.Logger, pods: podset.New(), statuses: status.NewKeeper(), waiting: map[types.UID]bool{}}
	a.pleg = pleg.New(pleg.Config{Runtime: cfg.Runtime, Period: cfg.RelistPeriod, Clock: cfg.Clock, Logger: cfg.Logger})
	a.workers = worker.New(worker.Config{
		Syncer: a, Resync: cfg.ResyncPeriod, Retry: cfg.RetryPause, Clock: cfg.Clock, Logger: cfg.Logger,
	})
	a.loop = syncloop.New(syncloop.Config{
		Handler: a, Ready: a.pleg.Ready(), Take: a.pleg.Take,
		Housekeeping: cfg.HousekeepingPeriod, Clock: cfg.Clock, Logger: cfg.Logger,
	})
	return a
}

// Deliver takes an event of the stream and returns when it is applied; it is what client.Watch calls.
func (a *Agent) Deliver(ctx context.Context, e client.Event) error { return a.loop.Deliver(ctx, e) }

// Run works until ctx ends. The pods go on running after that.
func (a *Agent) Run(ctx context.Context) {
	relisting := make(chan struct{})
	go func() {
		defer close(relisting)
		a.pleg.Run(ctx)
	}()
	a.loop.Run(ctx)
	<-relisting
	a.workers.Stop()
}

// dispatch gives a desired pod to its worker, once nothing stands in its way. Housekeeping tries again for those that have
// none.
func (a *Agent) dispatch(pod *v1.Pod) {
	found, _ := a.pleg.Pods()
	for _, other := range found {
		if other.UID == pod.UID || other.Name != pod.Name || other.Namespace != pod.Namespace || !other.Active() || a.known(other.UID) {
			continue
		}
		// A pod of the same full name runs from an earlier life of this agent, and it isn't desired. A name is unique within a
		// source: its own source has given it to this pod. Another source has to speak first.
		if other.Source != pod.Annotations[sourceAnnotation] && !a.pods.Settled(other.Source) {
			if a.waiting[pod.UID] {
				return
			}
			a.waiting[pod.UID] = true
			a.log.Info("pod waits: a pod of the same name runs, and its source hasn't said yet whether it is still wanted",
				"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "other", other.UID, "source", other.Source)
			return
		}
		a.removeLeftover(other)
	}
	delete(a.waiting, pod.UID)
	a.workers.Update(pod)
}

// known tells whether the pod is desired or being worked on.
func (a *Agent) known(uid types.UID) bool {
	if a.pods.Get(uid) != nil {
		return true
	}
	_, working := a.workers.Get(uid)
	return working
}
