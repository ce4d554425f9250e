package admission

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Config configures a Queue.
type Config struct {
	// Restored are the allocations that were stored before the restart.
	Restored map[types.UID]resize.Allocation
	// Swaps reports whether a container may use swap. Nil: no container may.
	Swaps func(*v1.Pod, *v1.Container) bool
	// Clock dates the beginning of a wait. Nil means the real clock.
	Clock clock.PassiveClock
}

// Snapshot is the state of the node for one Check.
type Snapshot struct {
	Node admit.Node
	// Terminating are the pods that are being ended.
	Terminating map[types.UID]bool
	// Pressure returns why a pod cannot be admitted now even if it fits: the node is short of a resource. Nil: it
	// never is.
	Pressure func(*v1.Pod) (admit.Rejection, bool)
}

// Verdict is the result of a Check.
type Verdict struct {
	// Preempt are the pods that the caller has to end for a critical pod.
	admit.Verdict
	// Held are the lacks that a changed, running pod would have. The pod goes on as it was before the change.
	Held []admit.Lack
	// Awaited are the pods whose end a critical pod waits for; capacity is reserved for it. Empty: it waits for none.
	Awaited []*v1.Pod
	// Resizing is set while running containers may have other resources than the pod is allocated.
	Resizing bool
}

// Changes are the effects of earlier calls on pods other than their own.
type Changes struct {
	// Wake are the waiting pods whose workers have to call Check again.
	Wake map[types.UID]bool
	// Allocations are the allocations to store; nil: the pod has none any more.
	Allocations map[types.UID]*resize.Allocation
}

// Queue holds the allocations of admitted pods and the pods that wait for one. It is safe for concurrent use.
type Queue struct {
	cfg Config

	mu sync.Mutex
	// admitted are the pods that were admitted and have not ended.
	admitted map[types.UID]*allocation
	// restored are the stored allocations of pods that are not admitted yet.
	restored map[types.UID]resize.Allocation
	// waiting are the pods that wait to be admitted or resized.
	waiting map[types.UID]*waiter
	// reserved are the reservations of critical pods in waiting.
	reserved map[types.UID]*reservation
	// requeued counts the calls of requeueOthers.
	requeued int
	// changes are those since the last Take.
	changes Changes
}

// allocation is the capacity of an admitted pod.
type allocation struct {
	// pod is the version that was decided last; it counts against other pods. reported is the version that Check
	// returned last, or nil.
	pod, reported *v1.Pod
	// resizing is set while running containers may have other resources than pod.
	resizing bool
}

// New returns a Queue without admitted pods.
func New(cfg Config) *Queue {
	if cfg.Swaps == nil {
		cfg.Swaps = func(*v1.Pod, *v1.Container) bool { return false }
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	q := &Queue{
		cfg: cfg, admitted: map[types.UID]*allocation{}, restored: map[types.UID]resize.Allocation{}, waiting: map[types.UID]*waiter{},
		reserved: map[types.UID]*reservation{}, changes: newChanges(),
	}
	maps.Copy(q.restored, cfg.Restored)
	return q
}

func newChanges() Changes {
	return Changes{Wake: map[types.UID]bool{}, Allocations: map[types.UID]*resize.Allocation{}}
}

// Take returns the changes since the last call. Calls that apply them must not overlap: a later allocation would be
// stored first.
func (q *Queue) Take() Changes {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.changes
	q.changes = newChanges()
	return taken
}

// Adopt admits a pod that has run since before the restart, with its stored allocation, unless it is admitted already.
// last is its last status, or nil.
func (q *Queue) Adopt(pod *v1.Pod, last *v1.PodStatus) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.adopt(pod, last)
}

// adopt is Adopt; its caller holds mu.
func (q *Queue) adopt(pod *v1.Pod, last *v1.PodStatus) {
	uid := pod.UID
	if q.admitted[uid] != nil {
		return
	}
	a := &allocation{pod: resize.Restored(pod, last), resizing: resize.InProgress(last)}
	if restored, ok := q.restored[uid]; ok {
		a.pod, a.resizing = restored.Of(pod), a.resizing || restored.Resizing
		delete(q.restored, uid)
	}
	a.reported = a.pod
	q.admitted[uid] = a
	q.store(uid)
}

// Expect queues a pod before its worker calls Check. last is its last status, or nil.
func (q *Queue) Expect(pod *v1.Pod, last *v1.PodStatus) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wait(pod, last).decided = false
}

// Check decides whether the pod can run on the node, and with which resources, and records the decision. runs reports
// whether a part of the pod runs: such a pod is adopted. A pod that has ended needs no capacity.
func (q *Queue) Check(pod *v1.Pod, s Snapshot, runs bool, last *v1.PodStatus) (resize.Decision, Verdict) {
	if Ended(pod, last) && !runs {
		return resize.Decision{Pod: q.Allocated(pod)}, Verdict{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if runs {
		q.adopt(pod, last)
	}
	w := q.wait(pod, last)
	w.runs = runs
	var d resize.Decision
	var v Verdict
	for w.decided = false; !w.decided; {
		q.decideBefore(w, &s)
		d, v = q.decide(w, &s)
	}
	if a := q.admitted[pod.UID]; a != nil {
		// The Check of another pod may have decided on this one since its own last Check.
		d.Begun, v.Resizing = a.reported != nil && !resize.Same(a.reported, a.pod), a.resizing
		a.reported = a.pod
	}
	return d, v
}

// Ended reports whether the pod has run to its end, perhaps before the restart. A rejected pod has not: it is checked
// again.
func Ended(pod *v1.Pod, last *v1.PodStatus) bool {
	return podmeta.IsTerminal(pod.Status.Phase) || last != nil && podmeta.IsTerminal(last.Phase) && !admit.Rejected(last)
}

// Allocated returns the pod with the resources and the generation that Check returned last, for a status or a count of
// what pods use.
func (q *Queue) Allocated(pod *v1.Pod) *v1.Pod {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.admitted[pod.UID]
	if a == nil || a.reported == nil || a.reported == pod {
		return pod
	}
	out := *resize.Held(pod, a.reported)
	if pod.DeletionTimestamp == nil {
		out.Generation = a.reported.Generation // No resize of a pod that is being deleted is decided on any more.
	}
	return &out
}

// Resized records that all running containers of the pod have the resources that Check returned last.
func (q *Queue) Resized(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.admitted[uid]; a != nil && a.resizing && a.reported != nil && resize.Same(a.reported, a.pod) {
		a.resizing = false
		q.store(uid)
	}
}

// Release removes a pod that has ended, is gone, or never starts. If it had capacity, the waiting pods are queued
// again.
func (q *Queue) Release(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, stored := q.restored[uid]
	had := q.admitted[uid] != nil
	delete(q.waiting, uid)
	delete(q.admitted, uid)
	delete(q.restored, uid)
	for _, r := range q.reserved {
		delete(r.victims, uid)
	}
	if had || stored {
		q.store(uid)
	}
	if had {
		q.requeueOthers(uid)
	}
	q.unreserve(uid)
}

// Requeue queues all waiting pods again, because the node may have capacity for them now.
func (q *Queue) Requeue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requeueOthers("")
}

// store adds the pod's allocation to the changes. A static pod is never resized: it has what its manifest says. The
// caller holds mu.
func (q *Queue) store(uid types.UID) {
	a := q.admitted[uid]
	switch {
	case a == nil:
		q.changes.Allocations[uid] = nil
	case a.pod.Generation != 0:
		stored := resize.AllocationOf(a.pod)
		stored.Resizing = a.resizing
		q.changes.Allocations[uid] = &stored
	}
}
