package podexecd

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// addressesFresh is how long the node's addresses are cached.
const addressesFresh = 10 * time.Second

// addresses caches the node's addresses: every status has them, and finding them asks DNS, which may be slow or away, and
// reads all interfaces of the kernel, of which a node with many pods has many. So only the first search is waited for.
// It is safe for concurrent use.
type addresses struct {
	find  func() []string
	clock clock.PassiveClock

	mu    sync.Mutex
	found []string
	// at is when the last search ended. Zero: there was none.
	at time.Time
	// searching is closed when the search that is under way ends. Nil: none is.
	searching chan struct{}
}

// newAddresses returns the cached results of find, until ctx ends.
func newAddresses(ctx context.Context, find func(context.Context) ([]netip.Addr, error)) *addresses {
	return &addresses{clock: clock.RealClock{}, find: func() []string {
		found, err := find(ctx)
		if err != nil {
			return nil // For example, there is no route yet.
		}
		var out []string
		for _, ip := range found {
			out = append(out, ip.String())
		}
		return out
	}}
}

// get returns the addresses that were found last, the primary one first. If they are old, or there are none, it begins
// another search, whose result later calls return.
func (a *addresses) get() []string {
	a.mu.Lock()
	if a.searching == nil && (len(a.found) == 0 || a.clock.Since(a.at) >= addressesFresh) {
		a.searching = make(chan struct{})
		go a.search(a.searching)
	}
	found, first := a.found, a.searching
	if !a.at.IsZero() {
		first = nil
	}
	a.mu.Unlock()
	if first == nil {
		return found
	}
	<-first
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.found
}

// search finds the addresses, and closes done.
func (a *addresses) search(done chan struct{}) {
	found := a.find()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.found, a.at, a.searching = found, a.clock.Now(), nil
	close(done)
}
