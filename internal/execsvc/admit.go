package execsvc

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/admission"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// This file is the Agent's only use of the admission: each change is followed by applyAdmission.

// expect queues pods that arrive together. Pods that have run since before the restart are admitted first.
func (a *Agent) expect(pods []*v1.Pod) {
	defer a.applyAdmission()
	pods = slices.DeleteFunc(slices.Clone(pods), podmeta.IsMirror)
	for _, pod := range pods {
		if a.runs(pod.UID) {
			a.admission.Adopt(pod, a.lastStatus(pod))
		}
	}
	for _, pod := range pods {
		if a.needsAdmission(pod) {
			a.admission.Expect(pod, a.lastStatus(pod))
		}
	}
}

// needsAdmission reports whether the pod needs capacity: it runs or is to run, and isn't being ended.
func (a *Agent) needsAdmission(pod *v1.Pod) bool {
	if w, working := a.workers.Get(pod.UID); pod.DeletionTimestamp != nil || working && w.State >= worker.Terminating {
		return false
	}
	return a.runs(pod.UID) || !admission.Ended(pod, a.lastStatus(pod)) && !a.rejectedForGood(pod)
}

// adopt admits the pod if it runs.
func (a *Agent) adopt(pod *v1.Pod) {
	if a.runs(pod.UID) {
		a.admission.Adopt(pod, a.lastStatus(pod))
		a.applyAdmission()
	}
}

// check decides whether the pod can run here, and with which resources. Other controllers act on a rejection, so a pod
// is not rejected for a feature of the runtime before the runtime is asked again.
func (a *Agent) check(ctx context.Context, pod *v1.Pod, has *observed.Pod) (resize.Decision, admission.Verdict) {
	decision, verdict := a.checkOnce(pod, has)
	if verdict.ByRuntime() {
		a.cfg.AskRuntime(ctx)
		return a.checkOnce(pod, has)
	}
	return decision, verdict
}

func (a *Agent) checkOnce(pod *v1.Pod, has *observed.Pod) (resize.Decision, admission.Verdict) {
	defer a.applyAdmission()
	snapshot := admission.Snapshot{Node: a.cfg.Node(), Terminating: a.workers.Terminating(), Pressure: a.cfg.Pressure}
	return a.admission.Check(pod, snapshot, has.Active(), a.lastStatus(pod))
}

// resized records that all running containers of the pod have the resources that it is allocated.
func (a *Agent) resized(uid types.UID) {
	a.admission.Resized(uid)
	a.applyAdmission()
}

// release makes the pod's capacity free: the pod has ended, or never starts.
func (a *Agent) release(uid types.UID) {
	a.admission.Release(uid)
	a.applyAdmission()
}

// PressureChanged wakes the pods that wait for capacity, or for the end of the node's pressure.
func (a *Agent) PressureChanged() {
	a.admission.Requeue()
	a.applyAdmission()
}

// applyAdmission stores allocations and wakes pods, as the admission's changes say. When it returns, all changes of
// earlier calls of the admission are applied.
func (a *Agent) applyAdmission() {
	a.admitting.Lock()
	defer a.admitting.Unlock()
	changes := a.admission.Take()
	for uid, allocation := range changes.Allocations {
		a.cfg.Store.SetAllocation(uid, allocation)
	}
	for uid := range changes.Wake {
		a.workers.Sync(uid)
	}
}

// active returns the pods that are not being ended, with the resources that they are allocated.
func (a *Agent) active() []*v1.Pod {
	var pods []*v1.Pod
	for _, w := range a.workers.All() {
		if w.State == worker.Waiting || w.State == worker.Syncing {
			pods = append(pods, a.admission.Allocated(w.Pod))
		}
	}
	return pods
}

// terminating returns the pods that are being ended, with the resources that they are allocated.
func (a *Agent) terminating() []*v1.Pod {
	var pods []*v1.Pod
	for _, w := range a.workers.All() {
		if w.State == worker.Terminating && w.Pod.Name != "" {
			pods = append(pods, a.admission.Allocated(w.Pod))
		}
	}
	return pods
}

// rejectedForGood reports whether the pod was rejected and stays so, because another controller acts on it: it has
// created another pod. Once the API server has the rejection, the pod's own status says that the pod has ended.
func (a *Agent) rejectedForGood(pod *v1.Pod) bool {
	last := a.lastStatus(pod)
	return a.cfg.Final(pod) && last != nil && admit.Rejected(last) && !podmeta.IsTerminal(pod.Status.Phase)
}
