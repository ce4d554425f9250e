package shutdown

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
)

// This file has the world's pods, as the Agent has them.

func (w *world) Restored() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.restored
}

func (w *world) Unended() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*v1.Pod
	for _, pod := range w.pods {
		out = append(out, pod)
	}
	return out
}

func (w *world) End(uid types.UID, grace int64, failure status.Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if failure.Reason != "Terminated" || failure.Message != "Pod was terminated in response to imminent node shutdown." || !failure.Disrupted {
		w.t.Errorf("the pod %s ends because of %+v", uid, failure)
	}
	w.note(fmt.Sprintf("end %s %d", uid, grace))
	time.AfterFunc(w.takes[uid], func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.pods, uid)
	})
}

func (w *world) Gone(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid] == nil
}
