package execsvc

import (
	"log/slog"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/pleg"
	"github.com/podstream/podstream/internal/execsvc/cri/probe"
	"github.com/podstream/podstream/internal/execsvc/decide/admission"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/removals"
	"github.com/podstream/podstream/internal/execsvc/loop/restarts"
	"github.com/podstream/podstream/internal/execsvc/loop/syncloop"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/machine/walltime"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podset"
)

// Agent runs pods. It implements syncloop.SyncHandler and worker.Syncer.
type Agent struct {
	cfg       Config
	log       *slog.Logger
	metrics   *metrics
	pods      *podset.Set
	admission *admission.Queue
	statuses  *status.Keeper
	pleg      *pleg.PLEG
	probes    *probe.Manager
	workers   *worker.Workers
	loop      *syncloop.Loop
	// waiting maps a desired pod that can't be dispatched yet to the pod that it waits for. Only the sync loop's
	// goroutine uses it.
	waiting map[types.UID]types.UID
	// evictions are the last evictions of static pods. Only the sync loop's goroutine uses it.
	evictions map[types.UID]pastEviction
	// overdue are the pods whose end took too long at the last housekeeping. Only the sync loop's goroutine uses it.
	overdue map[types.UID]bool
	chores  chores
	// restarts are the requests of operators to restart containers.
	restarts *restarts.Requests
	// removals holds back removals of the stream. Nil: without a bound.
	removals *removals.Gate
	// restored is closed when the pods of before the restart are there.
	restored chan struct{}

	// admitting is held while changes of the admission are applied, so that they are stored in their order.
	admitting sync.Mutex
	// balancing is held while the QoS cgroups are set, so that they end with the newest pods.
	balancing sync.Mutex
	// showing is held while a pod is read and shown, or its status is stored, so that an older state never replaces a
	// newer one.
	showing   sync.Mutex
	podErrors podErrors
	// networkDown is set if the node's network was not ready at the last check.
	networkDown atomic.Bool
	// started holds when pods were started, and ended when static pods were evicted, by UID, in readings of this
	// process's clock.
	started, ended walltime.Readings
}

// known reports whether the pod is desired or has a worker.
func (a *Agent) known(uid types.UID) bool {
	if a.pods.Get(uid) != nil {
		return true
	}
	_, working := a.workers.Get(uid)
	return working
}

// lastStatus returns the pod's last status, or nil.
func (a *Agent) lastStatus(pod *v1.Pod) *v1.PodStatus {
	if last, ok := a.statuses.Get(pod.UID); ok {
		return last.Status
	}
	return nil
}

// runs reports whether a part of the pod runs.
func (a *Agent) runs(uid types.UID) bool {
	has := a.pleg.Get(uid)
	return has != nil && has.Active()
}

// LoopHealth returns nil if the sync loop makes progress.
func (a *Agent) LoopHealth() error { return a.loop.Health() }

// PLEGStalled returns an error if the runtime's pods could not be listed for minutes.
func (a *Agent) PLEGStalled() error { return a.pleg.Stalled() }

// Found returns the pods of the last relist, and whether they are current.
func (a *Agent) Found() ([]*observed.Pod, bool) { return a.pleg.Pods() }

// Settled reports whether the pods of all sources are known.
func (a *Agent) Settled() bool { return a.pods.Settled("") }

// Unready returns the sources of which not all pods are known, in order.
func (a *Agent) Unready() []string { return a.pods.Unready() }

// Gone reports whether all of the pod has ended, and its volumes are torn down.
func (a *Agent) Gone(uid types.UID) bool {
	w, working := a.workers.Get(uid)
	return !working || w.State == worker.Finished
}

// skeleton returns a pod object with the fields that are known of a pod that was found in the runtime.
func skeleton(has *observed.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: has.UID, Namespace: has.Namespace, Name: has.Name, Annotations: map[string]string{podmeta.SourceAnnotation: has.Source},
	}}
}
