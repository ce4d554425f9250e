package podset

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Set is the set of desired pods. It is safe for concurrent use. The pods in it must not be changed.
type Set struct {
	mu   sync.RWMutex
	pods map[types.UID]*v1.Pod
	// byName has the pods of each full name, in the order of their arrival. There is more than one while a pod replaces
	// another, and where a mirror pod has its static pod's name.
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
	if old != nil && podmeta.FullName(old) == podmeta.FullName(pod) {
		return
	}
	if old != nil {
		s.unname(old)
	}
	s.byName[podmeta.FullName(pod)] = append(s.byName[podmeta.FullName(pod)], pod.UID)
}

// Remove removes the pod and returns it, or nil if it isn't in the Set.
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

// unname removes the pod from the list of its name.
func (s *Set) unname(pod *v1.Pod) {
	name := podmeta.FullName(pod)
	uids := slices.DeleteFunc(s.byName[name], func(uid types.UID) bool { return uid == pod.UID })
	if len(uids) == 0 {
		delete(s.byName, name)
		return
	}
	s.byName[name] = uids
}

// Get returns the pod with that UID, or nil.
func (s *Set) Get(uid types.UID) *v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pods[uid]
}

// ByName returns the pod of that namespace and name, or nil; of several the one that came last.
func (s *Set) ByName(namespace, name string) *v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	uids := s.byName[name+"_"+namespace]
	if len(uids) == 0 {
		return nil
	}
	return s.pods[uids[len(uids)-1]]
}

// All returns every pod, unordered.
func (s *Set) All() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*v1.Pod, 0, len(s.pods))
	for _, p := range s.pods {
		out = append(out, p)
	}
	return out
}

// SetReady records whether a source has sent all its pods. A source that isn't known to be configured is ignored.
func (s *Set) SetReady(source string, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, configured := s.ready[source]; configured {
		s.ready[source] = ready
	}
}

// SetSources records the readiness of all configured sources: others aren't configured any more.
func (s *Set) SetSources(ready map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = make(map[string]bool, len(ready))
	for name, r := range ready {
		s.ready[name] = r
	}
}

// Settled reports whether a pod of that source which isn't in the Set is certainly not desired: its source is ready, or
// isn't configured while all others are ready. An empty source means that the pod's source isn't known. Nothing is
// settled before SetSources.
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

// Unready returns the configured sources that have not sent all their pods, in order.
func (s *Set) Unready() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for name, ready := range s.ready {
		if !ready {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
