package worker

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// release takes the pod out of its name's queue, and wakes the others if it had the name: one of them has it now, and the rest wait for
// that one. The caller holds mu.
func (w *Workers) release(pod *v1.Pod) {
	name := fullName(pod)
	queue := w.queues[name]
	i := slices.Index(queue, pod.UID)
	if i < 0 {
		return
	}
	queue = slices.Delete(queue, i, i+1)
	if len(queue) == 0 {
		delete(w.queues, name)
		return
	}
	w.queues[name] = queue
	if i == 0 {
		for _, uid := range queue {
			w.workers[uid].signal(false)
		}
	}
}

// end removes the worker, or begins the life of the incarnation that waited. It is true if the goroutine goes on.
func (w *Workers) end(uid types.UID, k *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release(k.machine.pod)
	m := k.machine.reborn(w.cfg.Clock.Now())
	if m == nil {
		delete(w.workers, uid)
		return false
	}
	k.machine, k.refusals = m, refusals{}
	k.wentWell()
	name := fullName(m.pod)
	w.queues[name] = append(w.queues[name], uid)
	k.signal(false)
	return true
}
