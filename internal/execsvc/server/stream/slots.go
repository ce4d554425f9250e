package stream

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// slots bounds how much goes on at once, in all and for each pod, and waits for its end.
type slots struct {
	what        string
	all, perPod int

	mu     sync.Mutex
	closed bool
	taken  int
	byPod  map[types.UID]int
	busy   sync.WaitGroup
}

func newSlots(what string, all, perPod int) *slots {
	return &slots{what: what, all: all, perPod: perPod, byPod: map[types.UID]int{}}
}

// take returns what gives the slot back, once.
func (s *slots) take(pod types.UID) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, fail(http.StatusServiceUnavailable, "podexecd is ending")
	case s.taken >= s.all:
		return nil, fail(http.StatusTooManyRequests, "too many %s: this node has %d open, and no more at a time", s.what, s.taken)
	case s.byPod[pod] >= s.perPod:
		return nil, fail(http.StatusTooManyRequests, "too many %s: the pod has %d open, and no more at a time", s.what, s.byPod[pod])
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

// inotifyInstances is how many the kernel allows a user.
func inotifyInstances() int {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return 128 // The kernel's own default.
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 128
	}
	return n
}
