package podset

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Set is the desired pods. It is safe for concurrent use. The pods in it must not be changed.
type Set struct {
	mu   sync.RWMutex
	pods map[types.UID]*v1.Pod
	// byName are the pods of each full name, in the order in which they came. There is more than one while a pod takes another's
	// place, and where a mirror pod bears its static pod's name.
	byName map[string][]types.UID
	ready  map[string]bool
}

// New returns an empty Set.
func New() *Set {
	return &Set{pods: map[types.UID]*v1.Pod{}, byName: map[string][]types.UID{}, ready: map[string]bool{}}
}

// Put adds the pod, or replaces the one with its UID.
func (s *Set) Put(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.pods[pod.UID]
	s.pods[pod.UID] = pod
	if old != nil && fullName(old) == fullName(pod) {
		return
	}
	if old != nil {
		s.unname(old)
	}
	s.byName[fullName(pod)] = append(s.byName[fullName(pod)], pod.UID)
}

// Remove takes the pod out and returns it, or nil if it wasn't in.
func (s *Set) Remove(uid types.UID) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[uid]
	if pod != nil {
		s.unname(pod)
		delete(s.pods, uid)
	}
	return pod
}

// unname takes the pod out of those of its name.
func (s *Set) unname(pod *v1.Pod) {
	name := fullName(pod)
	uids := slices.DeleteFunc(s.byName[name], func(uid types.UID) bool { return uid == pod.UID })
	if len(uids) == 0 {
		delete(s.byName, name)
		return
	}
	s.byName[name] = uids
}

// Get is the pod with that UID, or nil.
func (s *Set) Get(uid types.UID) *v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pods[uid]
}

// ByName is the pod of that namespace and name, or nil. Of several it is the one that came last.
func (s *Set) ByName(namespace, name string) *v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	uids := s.byName[name+"_"+namespace]
	if len(uids) == 0 {
		return nil
	}
	return s.pods[uids[len(uids)-1]]
}

// All is every pod, in no order.
func (s *Set) All() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*v1.Pod, 0, len(s.pods))
	for _, p := range s.pods {
		out = append(out, p)
	}
	return out
}

// SetReady notes that a source has told all its pods, or hasn't. A source that isn't known to be configured is ignored.
func (s *Set) SetReady(source string, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, configured := s.ready[source]; configured {
		s.ready[source] = ready
	}
}

// SetSources notes the readiness of all configured sources: others aren't configured any more.
func (s *Set) SetSources(ready map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = make(map[string]bool, len(ready))
	for name, r := range ready {
		s.ready[name] = r
	}
}

// Settled tells whether a pod of that source which isn't in the Set is unwanted for certain: its own source is ready, or isn't
// configured while all others are ready. An empty source means that nobody knows where the pod came from. Nothing is settled
// before SetSources.
func (s *Set) Settled(source string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ready, configured := s.ready[source]; configured {
		return ready
	}
	for _, ready := range s.ready {
		if !ready {
			return false
		}
	}
	return len(s.ready) > 0
}

func fullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }
