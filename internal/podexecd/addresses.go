package podexecd

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// addressesFresh is how long the node's addresses are taken to be what they were.
const addressesFresh = 10 * time.Second

// addresses are the node's own. They are remembered for a while: every status has them, and to find them the kernel has to be asked
// for all of its interfaces, of which a node with many pods has many. It is safe for concurrent use.
type addresses struct {
	find  func() []string
	clock clock.PassiveClock

	mu    sync.Mutex
	found []string
	at    time.Time
}

// newAddresses returns those that find tells, until ctx ends.
func newAddresses(ctx context.Context, find func(context.Context) ([]netip.Addr, error)) *addresses {
	return &addresses{clock: clock.RealClock{}, find: func() []string {
		found, err := find(ctx)
		if err != nil {
			return nil // there is no route yet, say
		}
		var out []string
		for _, ip := range found {
			out = append(out, ip.String())
		}
		return out
	}}
}

// get returns the addresses, the primary one first. While there are none, it looks again each time.
func (a *addresses) get() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.found) == 0 || a.clock.Since(a.at) >= addressesFresh {
		a.found, a.at = a.find(), a.clock.Now()
	}
	return a.found
}
