package worker

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// release removes the pod from the queue of its full name. If it held the name, the other pods are woken: the first
// one holds it now, and the others show that they wait for that one. The caller holds mu.
func (w *Workers) release(pod *v1.Pod) {
	name := podmeta.FullName(pod)
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

// end removes the worker, or starts the pod that was added again meanwhile. It reports whether the goroutine goes on.
func (w *Workers) end(uid types.UID, k *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release(k.machine.pod)
	m := k.machine.successor(w.cfg.Clock.Now())
	if m == nil {
		delete(w.workers, uid)
		return false
	}
	k.machine, k.rejections, k.progress = m, rejections{}, progress{arrived: w.cfg.Clock.Now()}
	w.metrics.restarted(m.pod)
	k.succeeded()
	name := podmeta.FullName(m.pod)
	w.queues[name] = append(w.queues[name], uid)
	k.signal(false)
	return true
}
