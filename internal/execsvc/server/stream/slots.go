package stream

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// slots bounds how many streams there are at once, in all and for each pod, and waits for their end.
type slots struct {
	all, perPod int

	mu     sync.Mutex
	closed bool
	taken  int
	byPod  map[types.UID]int
	busy   sync.WaitGroup
}

func newSlots(all, perPod int) *slots {
	return &slots{all: all, perPod: perPod, byPod: map[types.UID]int{}}
}

// take returns what gives the slot back, once.
func (s *slots) take(pod types.UID) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, fail(http.StatusServiceUnavailable, "podexecd is ending")
	case s.taken >= s.all:
		return nil, fail(http.StatusTooManyRequests, "too many streams: this node has %d open, and no more at a time", s.taken)
	case s.byPod[pod] >= s.perPod:
		return nil, fail(http.StatusTooManyRequests, "too many streams: the pod has %d open, and no more at a time", s.byPod[pod])
	}
	s.taken++
	s.byPod[pod]++
	s.busy.Add(1)
	return func() { s.leave(pod) }, nil
}

func (s *slots) leave(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byPod[pod]--; s.byPod[pod] == 0 {
		delete(s.byPod, pod)
	}
	s.busy.Done()
}

// close lets nobody in any more, and waits until all have left.
func (s *slots) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.busy.Wait()
}
