package pleg

import (
	"sync"
)

// fakeExits reports the ends of the test.
type fakeExits struct {
	mu sync.Mutex
	// refuse is the error of Follow.
	refuse error
	// followed are the followed PIDs, by ID; gone are the IDs whose process has ended before it could be followed.
	followed map[string]int
	gone     map[string]bool
	ended    []string
	ready    chan struct{}
}

func newFakeExits() *fakeExits {
	return &fakeExits{followed: map[string]int{}, gone: map[string]bool{}, ready: make(chan struct{}, 1)}
}

func (f *fakeExits) Follow(id string, pid int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.refuse != nil:
		return f.refuse
	case f.gone[id]:
		f.report(id)
	default:
		f.followed[id] = pid
	}
	return nil
}

func (f *fakeExits) Unfollow(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.followed, id)
}

func (f *fakeExits) Ready() <-chan struct{} { return f.ready }

func (f *fakeExits) Take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := f.ended
	f.ended = nil
	return ended
}

// end ends processes that are followed.
func (f *fakeExits) end(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if _, ok := f.followed[id]; ok {
			delete(f.followed, id)
			f.report(id)
		}
	}
}

func (f *fakeExits) report(id string) {
	f.ended = append(f.ended, id)
	poke(f.ready)
}

func (f *fakeExits) set(refuse error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}
