package execsvc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/resize"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// admission admits pods one after the other, so that no two get the same room.
type admission struct {
	// swaps tells whether a container may use swap.
	swaps func(*v1.Pod, *v1.Container) bool

	mu sync.Mutex
	// in are the pods that were admitted and haven't ended, with the resources that they are allocated.
	in map[types.UID]*v1.Pod
	// waiting are those that wait for room: to be admitted, or to be resized.
	waiting map[types.UID]bool
}

func newAdmission(swaps func(*v1.Pod, *v1.Container) bool) *admission {
	return &admission{swaps: swaps, in: map[types.UID]*v1.Pod{}, waiting: map[types.UID]bool{}}
}

// adopt takes in a pod that runs since an earlier life of this agent, with what it was allocated then, unless it is in already. last is its
// last status, or nil.
func (a *admission) adopt(pod *v1.Pod, last *v1.PodStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, in := a.in[pod.UID]; !in {
		a.in[pod.UID] = resize.Allocated(pod, last)
	}
}

// check tells whether the pod can run here, and with which resources, and notes the answer. A pod that was found running is in already, as
// if it had been adopted; one that has ended needs nothing.
func (a *admission) check(pod *v1.Pod, node admit.Node, has *observed.Pod, last *v1.PodStatus) (resize.Decision, admit.Verdict) {
	if hasEnded(pod, last) && !has.Active() {
		return resize.Decision{Pod: pod}, admit.Verdict{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before, in := a.in[pod.UID]
	if !in && has.Active() {
		before, in = resize.Allocated(pod, last), true
		a.in[pod.UID] = before
	}
	others := a.others(pod.UID)
	d := resize.Decision{Pod: pod}
	all := others
	if in {
		d = resize.Decide(resize.Input{Pod: pod, Allocated: before, Node: node, Others: others, Swaps: a.swaps})
		all = append(slices.Clip(others), d.Pod)
	}
	v := admit.Check(d.Pod, node, all)
	delete(a.waiting, pod.UID)
	switch {
	case v.MayPass() || len(v.Preempt) > 0:
		a.waiting[pod.UID] = true
	case len(v.Refused) == 0:
		a.in[pod.UID] = d.Pod
		if d.Pending == v1.PodReasonDeferred {
			a.waiting[pod.UID] = true
		}
	case !has.Active():
		// It was changed, before it ran, into what can't run here.
		delete(a.in, pod.UID)
	}
	return d, v
}

// hasEnded tells whether the pod has run to its end, in an earlier life of this agent perhaps. One that was rejected hasn't: it is offered
// again.
func hasEnded(pod *v1.Pod, last *v1.PodStatus) bool {
	return terminal(&pod.Status) || last != nil && terminal(last) && !strings.HasPrefix(last.Message, rejected)
}

// others are all that are in but the pod. The caller holds mu.
func (a *admission) others(uid types.UID) []*v1.Pod {
	var out []*v1.Pod
	for other, pod := range a.in {
		if other != uid {
			out = append(out, pod)
		}
	}
	return out
}

// allocated is the pod as it was last decided to run: with the resources that it is allocated, and the generation that was decided upon.
func (a *admission) allocated(pod *v1.Pod) *v1.Pod {
	a.mu.Lock()
	decided := a.in[pod.UID]
	a.mu.Unlock()
	if decided == nil || decided == pod {
		return pod
	}
	out := *resize.Held(pod, decided)
	out.Generation = decided.Generation
	return &out
}

// left notes that the pod has ended or is gone, and tells whether it had room here.
func (a *admission) left(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, in := a.in[uid]
	delete(a.waiting, uid)
	delete(a.in, uid)
	return in
}

// waits are the pods that wait for room.
func (a *admission) waits() []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.waiting))
}

// madeRoom has the pods looked at again for which the end of this one may have made room.
func (a *Agent) madeRoom(uid types.UID) {
	if a.admission.left(uid) {
		a.retryWaiting()
	}
}

// retryWaiting has the pods looked at again that wait for room.
func (a *Agent) retryWaiting() {
	for _, uid := range a.admission.waits() {
		a.workers.Sync(uid)
	}
}

// preempt ends pods so that a critical one finds room, and says that it waits for them. What the pods leave that end anyway comes first: then
// fewer of the victims have to end, or none.
func (a *Agent) preempt(pod *v1.Pod, victims []types.UID) error {
	ending, staying := a.othersOf(pod.UID)
	if len(ending) > 0 {
		victims = admit.Check(pod, a.cfg.Node(), staying).Preempt
	}
	var names []string
	for _, other := range ending {
		names = append(names, other.Namespace+"/"+other.Name)
	}
	for _, victim := range staying {
		if !slices.Contains(victims, victim.UID) {
			continue
		}
		name := victim.Namespace + "/" + victim.Name
		names = append(names, name)
		const message = "Preempted in order to admit critical pod"
		a.log.Warn("ending a pod, as a critical one needs its room", "pod", name, "uid", victim.UID, "critical", pod.Namespace+"/"+pod.Name)
		a.cfg.Events.Record(victim, "", events.Warning, events.Preempting, message)
		a.workers.Kill(victim.UID, worker.Kill{Failure: &status.Failure{Reason: events.Preempting, Message: message}})
	}
	slices.Sort(names)
	return fmt.Errorf("waiting for the end of pods that make room: %s", strings.Join(names, ", "))
}

// othersOf are the other pods that have room here: those that are ending, and those that aren't.
func (a *Agent) othersOf(uid types.UID) (ending, staying []*v1.Pod) {
	a.admission.mu.Lock()
	others := a.admission.others(uid)
	a.admission.mu.Unlock()
	for _, other := range others {
		if w, ok := a.workers.Get(other.UID); ok && w.State >= worker.Terminating {
			ending = append(ending, other)
		} else {
			staying = append(staying, other)
		}
	}
	return ending, staying
}
