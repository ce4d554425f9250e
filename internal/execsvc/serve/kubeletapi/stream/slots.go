package stream

import (
	"errors"
	"sync"

	"github.com/podstream/podstream/internal/execsvc/machine/share"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
)

// slots limits the number of concurrent streams, and waits for their end. A pod, a namespace and a user without a
// certificate have a share each. The API server's streams belong to many users: they count only for their pods and
// namespaces.
type slots struct {
	all, perPod int
	pool        *share.Pool

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup
}

func newSlots(all, perPod int) *slots {
	return &slots{all: all, perPod: perPod, pool: share.New(all)}
}

// take takes a slot. release may be called more than once. A nil user isn't counted.
func (s *slots) take(pod podview.Pod, user *auth.User) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, unavailable("podexecd is ending")
	}
	holders := []share.Holder{{Name: "pod " + string(pod.UID), Most: s.perPod}, {Name: "namespace " + pod.Namespace}}
	if user != nil && !user.Certificate {
		holders = append(holders, share.Holder{Name: "user " + user.Name})
	}
	free, err := s.pool.Take(holders...)
	if err != nil {
		return nil, s.refusal(err)
	}
	s.busy.Add(1)
	var once sync.Once
	return func() {
		once.Do(func() {
			free()
			s.busy.Done()
		})
	}, nil
}

func (s *slots) refusal(err error) error {
	if full, ok := errors.AsType[*share.Error](err); ok {
		return tooManyRequests("too many streams: %s has %d open, and no more at a time", full.Holder, full.Held)
	}
	return tooManyRequests("too many streams: this node has %d open, and no more at a time", s.all)
}

// close refuses further streams, and waits for the end of all.
func (s *slots) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.busy.Wait()
}
