package execsvc

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
)

// refusals are the pods that can't run here, with the reasons.
type refusals struct {
	mu   sync.Mutex
	pods map[types.UID]client.PodError
}

// set notes that the pod can't run here, and tells whether that is news.
func (r *refusals) set(pod *v1.Pod, reason, message string) bool {
	now := client.PodError{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Reason: reason, Message: message}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[pod.UID] == now {
		return false
	}
	if r.pods == nil {
		r.pods = map[types.UID]client.PodError{}
	}
	r.pods[pod.UID] = now
	return true
}

// clear notes that the pod can run here, or is gone, and tells whether that is news.
func (r *refusals) clear(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.pods[uid]
	delete(r.pods, uid)
	return was
}

// Refused are the pods that this agent refuses to run, sorted by namespace and name, for client.ReportApplied.
func (a *Agent) Refused() []client.PodError {
	a.refused.mu.Lock()
	defer a.refused.mu.Unlock()
	out := make([]client.PodError, 0, len(a.refused.pods))
	for _, e := range a.refused.pods {
		out = append(out, e)
	}
	slices.SortFunc(out, func(x, y client.PodError) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	return out
}

// tellRefused says that Refused has another answer, if it has.
func (a *Agent) tellRefused(news bool) {
	if news && a.cfg.Refused != nil {
		a.cfg.Refused()
	}
}
