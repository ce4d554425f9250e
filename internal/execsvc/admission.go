package execsvc

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/resize"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// admission gives pods their room on the node, one after the other, so that no two get the same.
//
// Whoever asks, those that come before it and haven't been decided upon have their turn first: admission so depends on the pods' order,
// and not on which worker is the quickest. A critical pod for which others end has its room reserved until it is in.
type admission struct {
	admissionConfig

	// mu is held while the functions of the admissionConfig are called, and an admit.Node's Handler: none of them waits for anything.
	mu sync.Mutex
	// in are the pods that were admitted and haven't ended.
	in map[types.UID]*room
	// earlier is what pods were allocated in an earlier life of this agent that aren't in yet.
	earlier map[types.UID]resize.Allocation
	// waiting are those that wait for room, or for their turn: to be admitted, or to be resized.
	waiting map[types.UID]*contender
	// reserved are the critical ones of them for which other pods end.
	reserved map[types.UID]*reservation
	// freed counts how often there may have come to be more room.
	freed int
}

// admissionConfig is how an admission knows the rest of the agent. Nil functions: no container may use swap, no pod is being ended, the
// node is short of nothing, nobody is woken, nothing is kept, and it is always the same time.
type admissionConfig struct {
	// swaps tells whether a container may use swap.
	swaps func(*v1.Pod, *v1.Container) bool
	// ending tells whether a pod is being ended.
	ending func(types.UID) bool
	// pressed tells why a pod can't come now whatever room there is for it: the node is short of something.
	pressed func(*v1.Pod) (admit.Refusal, bool)
	// wake has a pod's worker ask again.
	wake func(types.UID)
	// keep has what a pod is allocated survive a restart; nil if it hasn't anything any more.
	keep func(types.UID, *resize.Allocation)
	// now is what the time is.
	now func() time.Time
}

// room is what a pod has.
type room struct {
	// pod is as it was last decided to run: by that it counts for others. told is what its worker knows of that; nil if nothing yet.
	pod, told *v1.Pod
	// resizing is set while running containers may have less or more than pod says.
	resizing bool
}

// contender is a pod that wants room, as it is desired.
type contender struct {
	pod *v1.Pod
	// since is when it began to wait.
	since time.Time
	// decided is set if nothing has changed since it was last decided upon.
	decided bool
}

// reservation is the room of a critical pod that it gets once others have ended.
type reservation struct {
	pod *v1.Pod
	// victims are those that end for it and haven't yet.
	victims map[types.UID]bool
}

// verdict is what came of asking for room.
type verdict struct {
	// Preempt are the pods that have to be told to end for it.
	admit.Verdict
	// awaited are those whose end a critical pod waits for, its room being reserved. Empty: it waits for nobody.
	awaited []*v1.Pod
	// resizing is set while what runs of the pod may not have what it is allocated.
	resizing bool
}

// newAdmission returns an admission without pods. earlier is what pods were allocated in an earlier life of this agent.
func newAdmission(cfg admissionConfig, earlier map[types.UID]resize.Allocation) *admission {
	if cfg.ending == nil {
		cfg.ending = func(types.UID) bool { return false }
	}
	if cfg.pressed == nil {
		cfg.pressed = func(*v1.Pod) (admit.Refusal, bool) { return admit.Refusal{}, false }
	}
	if cfg.wake == nil {
		cfg.wake = func(types.UID) {}
	}
	if cfg.keep == nil {
		cfg.keep = func(types.UID, *resize.Allocation) {}
	}
	if cfg.now == nil {
		cfg.now = func() time.Time { return time.Time{} }
	}
	a := &admission{
		admissionConfig: cfg, in: map[types.UID]*room{}, earlier: map[types.UID]resize.Allocation{},
		waiting: map[types.UID]*contender{}, reserved: map[types.UID]*reservation{},
	}
	maps.Copy(a.earlier, earlier)
	return a
}

// adopt takes in a pod that runs since an earlier life of this agent, with what it was allocated then, unless it is in already. last is its
// last status, or nil.
func (a *admission) adopt(pod *v1.Pod, last *v1.PodStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.adoptRunning(pod, last)
}

// adoptRunning is adopt; its caller holds mu.
func (a *admission) adoptRunning(pod *v1.Pod, last *v1.PodStatus) {
	uid := pod.UID
	if a.in[uid] != nil {
		return
	}
	r := &room{pod: resize.Told(pod, last), resizing: resize.InProgress(last)}
	if earlier, ok := a.earlier[uid]; ok {
		r.pod, r.resizing = earlier.Of(pod), r.resizing || earlier.Resizing
		delete(a.earlier, uid)
	}
	r.told = r.pod
	a.in[uid] = r
	a.remember(uid)
}

// expect gives the pod its turn before its worker asks, unless it is being ended. last is its last status, or nil.
func (a *admission) expect(pod *v1.Pod, last *v1.PodStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ending(pod.UID) {
		a.contend(pod, last).decided = false
	}
}

// check tells whether the pod can run here, and with which resources, and notes the answer. A pod that was found running is in already, as
// if it had been adopted; one that has ended needs nothing.
func (a *admission) check(pod *v1.Pod, node admit.Node, has *observed.Pod, last *v1.PodStatus) (resize.Decision, verdict) {
	if hasEnded(pod, last) && !has.Active() {
		return resize.Decision{Pod: pod}, verdict{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if has.Active() {
		a.adoptRunning(pod, last)
	}
	c := a.contend(pod, last)
	var d resize.Decision
	var v verdict
	for c.decided = false; !c.decided; {
		a.decideBefore(c, node)
		d, v = a.decide(c, node)
	}
	r := a.in[pod.UID]
	switch {
	case r == nil:
	case len(v.Refused) == 0:
		// Another one's worker may have decided on it since this one's asked last.
		d.Begun, v.resizing = r.told != nil && !resize.Same(r.told, r.pod), r.resizing
		r.told = r.pod
	case !has.Active():
		// It was changed, before it ran, into what can't run here.
		delete(a.in, pod.UID)
		a.remember(pod.UID)
		a.anew(pod.UID)
	}
	return d, v
}

// hasEnded tells whether the pod has run to its end, in an earlier life of this agent perhaps. One that was rejected hasn't: it is offered
// again.
func hasEnded(pod *v1.Pod, last *v1.PodStatus) bool {
	return terminal(&pod.Status) || last != nil && terminal(last) && !strings.HasPrefix(last.Message, rejected)
}

// allocated is the pod as its worker was last told to run it: with the resources that it is allocated, and the generation that was decided
// upon.
func (a *admission) allocated(pod *v1.Pod) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.in[pod.UID]
	if r == nil || r.told == nil || r.told == pod {
		return pod
	}
	out := *resize.Held(pod, r.told)
	out.Generation = r.told.Generation
	return &out
}

// resized notes that all that runs of the pod has what its worker was told.
func (a *admission) resized(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.in[uid]; r != nil && r.resizing && r.told != nil && resize.Same(r.told, r.pod) {
		r.resizing = false
		a.remember(uid)
	}
}

// left notes that the pod has ended, is gone or never comes: the others that wait for room are looked at again, if it had any.
func (a *admission) left(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, kept := a.earlier[uid]
	had := a.in[uid] != nil
	delete(a.waiting, uid)
	delete(a.in, uid)
	delete(a.earlier, uid)
	for _, r := range a.reserved {
		delete(r.victims, uid)
	}
	if had || kept {
		a.remember(uid)
	}
	if had {
		a.anew(uid)
	}
	a.unreserve(uid)
}

// remember has the store keep what the pod is allocated. A static pod is never resized: it has what its manifest says. The caller holds mu.
func (a *admission) remember(uid types.UID) {
	r := a.in[uid]
	switch {
	case r == nil:
		a.keep(uid, nil)
	case r.pod.Generation != 0:
		allocation := resize.AllocationOf(r.pod)
		allocation.Resizing = r.resizing
		a.keep(uid, &allocation)
	}
}

// expect gives pods that come together their turns. What runs since an earlier life has its room before any other pod finds it free.
func (a *Agent) expect(pods []*v1.Pod) {
	pods = slices.DeleteFunc(slices.Clone(pods), criconfig.Mirror)
	runs := func(pod *v1.Pod) bool {
		has := a.pleg.Get(pod.UID)
		return has != nil && has.Active()
	}
	for _, pod := range pods {
		if runs(pod) {
			a.admission.adopt(pod, a.lastStatus(pod))
		}
	}
	for _, pod := range pods {
		last := a.lastStatus(pod)
		if comes := !hasEnded(pod, last) && !a.rejectedForGood(pod); pod.DeletionTimestamp == nil && (runs(pod) || comes) {
			a.admission.expect(pod, last)
		}
	}
}

// ending tells whether the pod is being ended.
func (a *Agent) ending(uid types.UID) bool {
	w, working := a.workers.Get(uid)
	return working && w.State >= worker.Terminating
}

// PressureChanged has the pods looked at again that wait for room, or for the end of the node's pressure.
func (a *Agent) PressureChanged() {
	a.admission.mu.Lock()
	defer a.admission.mu.Unlock()
	a.admission.anew("")
}

// madeRoom takes away what room the pod has or waits for: it has ended, or never comes. Those for which that may be enough are looked at again.
func (a *Agent) madeRoom(uid types.UID) { a.admission.left(uid) }
