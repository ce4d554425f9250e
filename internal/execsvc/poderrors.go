package execsvc

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
)

// podErrors are the pods that were rejected or lack something, with the reasons.
type podErrors struct {
	mu   sync.Mutex
	pods map[types.UID]client.PodError
}

// set records that the pod can't run here, and reports whether that is a change.
func (r *podErrors) set(pod *v1.Pod, reason, message string) bool {
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

// clear records that the pod can run here, or is gone, and reports whether that is a change.
func (r *podErrors) clear(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.pods[uid]
	delete(r.pods, uid)
	return was
}

// list returns them sorted by namespace and name.
func (r *podErrors) list() []client.PodError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.pods), func(x, y client.PodError) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
}
