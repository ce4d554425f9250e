package execsvc

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/pleg"
	"github.com/podstream/podstream/internal/execsvc/podset"
	"github.com/podstream/podstream/internal/execsvc/probe"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/store"
	"github.com/podstream/podstream/internal/execsvc/syncloop"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// Agent runs pods. It implements syncloop.SyncHandler and worker.Syncer.
type Agent struct {
	cfg  Config
	log  *slog.Logger
	pods *podset.Set
	// admission knows which of them may be here.
	admission *admission
	statuses  *status.Keeper
	pleg      *pleg.PLEG
	probes    *probe.Manager
	workers   *worker.Workers
	loop      *syncloop.Loop
	// waiting are desired pods that another pod keeps from being dispatched, by its UID. Only the loop's goroutine uses it.
	waiting map[types.UID]types.UID
	// evictions are the last ones of static pods, likewise.
	evictions map[types.UID]eviction

	// showing is held while a pod is looked at and shown, or its status stored, so that no older look comes after a newer one.
	showing sync.Mutex
	refused refusals
	// networkDown is set while the node's network wasn't ready when it was last asked for.
	networkDown atomic.Bool
}

// New returns an Agent that isn't running.
func New(cfg Config) *Agent {
	cfg.setDefaults()
	a := &Agent{cfg: cfg, log: cfg.Logger, pods: cfg.Pods, waiting: map[types.UID]types.UID{}}
	a.statuses = status.NewKeeper(status.Config{Changed: a.statusChanged, Clock: cfg.Clock})
	a.pleg = pleg.New(pleg.Config{
		Runtime: cfg.Runtime, Exits: cfg.Exits, Period: cfg.RelistPeriod, Clock: cfg.Clock, Metrics: cfg.Metrics, Logger: cfg.Logger,
	})
	a.probes = probe.New(probe.Config{
		Handlers: cfg.Prober, Observed: a.pleg.Get, HostIPs: cfg.HostIPs, Events: cfg.Events, Metrics: cfg.Metrics, Clock: cfg.Clock, Logger: cfg.Logger,
	})
	a.workers = worker.New(worker.Config{
		Syncer: a, Resync: cfg.ResyncPeriod, Retry: cfg.RetryPause, Changed: a.show, Clock: cfg.Clock, Logger: cfg.Logger,
	})
	a.admission = newAdmission(admissionConfig{
		swaps: cfg.Runtime.Swaps, ending: a.ending, pressed: cfg.Pressure, wake: a.workers.Sync, keep: cfg.Store.SetAllocation, now: cfg.Clock.Now,
	}, cfg.Restored.Allocations)
	a.loop = syncloop.New(syncloop.Config{
		Handler: a, Begin: a.begin, Ready: a.pleg.Ready(), Take: a.pleg.Take, ProbesReady: a.probes.Ready(), TakeProbes: a.probes.Take,
		Housekeeping: cfg.HousekeepingPeriod, Clock: cfg.Clock, Logger: cfg.Logger,
	})
	return a
}

// Deliver takes an event of the stream and returns when it is applied; it is what client.Watch calls. The store has it first: what is on
// disk of how pods fare is never ahead of what is desired there.
func (a *Agent) Deliver(ctx context.Context, e client.Event) error {
	a.cfg.Store.Apply(e, a.ends(e)...)
	return a.loop.Deliver(ctx, e)
}

// ends are the terminations that begin with the event.
func (a *Agent) ends(e client.Event) []store.End {
	var out []store.End
	for _, c := range e.Ops {
		if c.Op != client.Remove {
			continue
		}
		for _, gone := range c.Pods {
			if pod := a.pods.Get(gone.UID); pod != nil {
				out = append(out, endOf(pod, worker.NewTermination(a.cfg.Clock.Now(), criconfig.GracePeriod(pod), nil), true))
			}
		}
	}
	return out
}

// Wake has a pod looked at now: an image that it waited for is there, say.
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
			ref := objects.Ref{Source: pod.Annotations[sourceAnnotation], Kind: client.SecretKind, Namespace: pod.Namespace, Name: secret.Name}
			if changed[ref] {
				a.Wake(pod.UID)
			}
		}
	}
}

// Run works until ctx ends. The pods go on running after that.
func (a *Agent) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { a.pleg.Run(ctx) })
	group.Go(func() { a.probes.Run(ctx) })
	a.loop.Run(ctx)
	group.Wait()
	a.workers.Stop()
}

// LoopHealth is nil if the sync loop turns.
func (a *Agent) LoopHealth() error { return a.loop.Health() }

// PLEGStalled is nil unless the runtime's pods couldn't be listed for minutes.
func (a *Agent) PLEGStalled() error { return a.pleg.Stalled() }

// Found is what was last found to run, and whether that is a true picture.
func (a *Agent) Found() ([]*observed.Pod, bool) { return a.pleg.Pods() }

// begin starts the pods that were desired when the store was last written, and goes on ending those that were being ended. What the
// runtime has is known by now, and nothing of the stream has been applied.
func (a *Agent) begin() {
	for _, known := range a.cfg.Restored.Pods {
		if criconfig.Mirror(known.Object) {
			a.cfg.Mirrors.Put(known.Object)
			continue
		}
		a.pods.Put(known.Object)
		if s, ok := a.cfg.Restored.Statuses[known.UID]; ok {
			a.statuses.Restore(known.Object, s.Status, s.Changed)
		}
		if has := a.pleg.Get(known.UID); has != nil && has.Active() {
			// Before any other pod, or the change of one, finds its room free.
			a.admission.adopt(known.Object, a.lastStatus(known.Object))
		}
	}
	for uid, end := range a.cfg.Restored.Ends {
		t := worker.Termination{Grace: end.Grace, Deadline: end.Deadline, Failure: end.Failure}
		for container, begun := range end.Told {
			a.cfg.Runtime.RestoreTold(container, begun)
		}
		if has := a.pleg.Get(uid); end.Object != nil && has != nil && has.Active() {
			a.admission.adopt(end.Object, a.lastStatus(end.Object))
		}
		pod := a.pods.Get(uid)
		if end.Removed || pod == nil {
			gone := end.Object.DeepCopy()
			if gone == nil {
				gone = skeleton(&observed.Pod{UID: uid, Namespace: end.Namespace, Name: end.Name, Source: end.Source})
			}
			gone.Spec.TerminationGracePeriodSeconds = &end.Grace
			if s, ok := a.cfg.Restored.Statuses[uid]; ok {
				a.statuses.Restore(gone, s.Status, s.Changed)
			}
			a.log.Info("going on with the end of a pod that was removed", "pod", end.Namespace+"/"+end.Name, "uid", uid, "deadline", t.Deadline)
			a.workers.Resume(gone, t, true)
			if pod != nil {
				// It was added again: it begins anew once that end is over.
				a.workers.Update(pod)
			}
			continue
		}
		a.workers.Resume(pod, t, false)
	}
	a.expect(a.pods.All())
	for _, pod := range a.pods.All() {
		if _, working := a.workers.Get(pod.UID); !working {
			a.dispatch(pod)
		}
	}
	for uid := range a.cfg.Restored.Statuses {
		if !a.known(uid) {
			a.cfg.Store.Forget(uid)
		}
	}
	for uid := range a.cfg.Restored.Allocations {
		if !a.known(uid) {
			a.admission.left(uid)
		}
	}
	if n := len(a.cfg.Restored.Pods); n > 0 {
		a.log.Info("pods of the store go on; podconfigd says what changed since", "pods", n, "ending", len(a.cfg.Restored.Ends),
			"revision", a.cfg.Restored.Cursor.GetRevision())
	}
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
			if a.waiting[pod.UID] == other.UID {
				return
			}
			a.waiting[pod.UID] = other.UID
			a.log.Info("pod waits: a pod of the same name runs, and its source hasn't said yet whether it is still wanted",
				"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "other", other.UID, "source", other.Source)
			a.show(pod.UID)
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
