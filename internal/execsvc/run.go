package execsvc

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/cri/pleg"
	"github.com/podstream/podstream/internal/execsvc/cri/probe"
	"github.com/podstream/podstream/internal/execsvc/decide/admission"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/restarts"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/loop/syncloop"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// New returns an Agent that does not run yet.
func New(cfg Config) *Agent {
	cfg.setDefaults()
	a := &Agent{cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Metrics), pods: cfg.Pods, waiting: map[types.UID]types.UID{}, restored: make(chan struct{})}
	a.chores.done = make(chan chored, 1)
	a.admission = admission.New(admission.Config{Restored: cfg.Restored.Allocations, Swaps: cfg.Runtime.Swaps, Clock: cfg.Clock})
	a.restarts = restarts.New(restarts.Config{Store: cfg.Store, Restored: cfg.Restored.Statuses, Clock: cfg.Clock})
	a.statuses = status.NewKeeper(status.Config{Changed: a.statusChanged, Clock: cfg.Clock})
	a.pleg = pleg.New(pleg.Config{
		Runtime: cfg.Runtime, Exits: cfg.Exits, Period: cfg.RelistPeriod, Clock: cfg.Clock, Metrics: cfg.Metrics, Logger: cfg.Logger,
	})
	a.probes = probe.New(probe.Config{
		Handlers: cfg.Prober, Observed: a.pleg.GetFull, HostIPs: cfg.HostIPs, Events: cfg.Events, Metrics: cfg.ProbeMetrics, Clock: cfg.Clock,
		Logger: cfg.Logger,
	})
	a.workers = worker.New(worker.Config{
		Syncer: a, Resync: cfg.ResyncPeriod, Retry: cfg.RetryPause, Changed: a.show, Clock: cfg.Clock, Metrics: cfg.Metrics, Logger: cfg.Logger,
	})
	a.loop = syncloop.New(syncloop.Config{
		Handler: a, Changed: cfg.Traces.Changed, Begin: a.restore, Ready: a.pleg.Ready(), Take: a.pleg.Take, ProbesReady: a.probes.Ready(), TakeProbes: a.probes.Take,
		Pulses: cfg.Pulses, Housekeeping: cfg.HousekeepingPeriod, Clock: cfg.Clock, Logger: cfg.Logger,
	})
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(census{a})
	}
	a.boundRemovals()
	return a
}

// Run works until ctx ends. The pods go on running after that.
func (a *Agent) Run(ctx context.Context) {
	for _, s := range a.cfg.Restored.Statuses {
		a.cfg.Runtime.RestoreReplaced(s.Replaced)
	}
	a.restoreRestarts()
	var group sync.WaitGroup
	group.Go(func() { a.pleg.Run(ctx) })
	group.Go(func() { a.probes.Run(ctx) })
	if a.removals != nil {
		group.Go(func() { a.removals.Run(ctx) })
	}
	a.loop.Run(ctx)
	group.Wait()
	a.chores.group.Wait()
	a.workers.Stop()
}

// Deliver applies an event of the stream; client.Watch calls it. Removals beyond the bound are held.
func (a *Agent) Deliver(ctx context.Context, e client.Event) error {
	if a.removals == nil {
		return a.apply(ctx, e)
	}
	// Which pods run isn't known before.
	select {
	case <-a.restored:
	case <-ctx.Done():
		return ctx.Err()
	}
	return a.removals.Deliver(ctx, e)
}

// apply applies an event. The store gets it first, so that the statuses on disk are never ahead of the desired pods on
// disk.
func (a *Agent) apply(ctx context.Context, e client.Event) error {
	a.cfg.Store.Apply(e, a.ends(e)...)
	return a.loop.Deliver(ctx, e)
}

// ends returns the terminations that begin with the event.
func (a *Agent) ends(e client.Event) []store.End {
	var out []store.End
	for _, c := range e.Ops {
		if c.Op != client.Remove {
			continue
		}
		for _, gone := range c.Pods {
			if pod := a.pods.Get(gone.UID); pod != nil {
				out = append(out, endOf(pod, worker.NewTermination(a.cfg.Clock.Now(), podmeta.GracePeriod(pod), nil), true))
			}
		}
	}
	return out
}

// Wake shows and syncs a pod now, for example after the pull of its image.
func (a *Agent) Wake(uid types.UID) {
	a.show(uid)
	a.workers.Sync(uid)
}

// ObjectsChanged wakes the pods that have read one of these objects, or pull images with one of these Secrets.
func (a *Agent) ObjectsChanged(refs []objects.Ref) {
	for _, uid := range a.cfg.Objects.ReadersOf(refs) {
		a.workers.Retry(uid)
	}
	changed := map[objects.Ref]bool{}
	for _, ref := range refs {
		changed[ref] = true
	}
	for _, pod := range a.pods.All() {
		for _, secret := range pod.Spec.ImagePullSecrets {
			ref := objects.Ref{Source: pod.Annotations[podmeta.SourceAnnotation], Kind: client.SecretKind, Namespace: pod.Namespace, Name: secret.Name}
			if changed[ref] {
				a.Wake(pod.UID)
			}
		}
	}
}
