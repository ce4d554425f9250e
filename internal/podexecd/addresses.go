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

// addresses caches the node's addresses: every status has them, and finding them reads all interfaces of the kernel,
// of which a node with many pods has many. It is safe for concurrent use.
type addresses struct {
	find  func() []string
	clock clock.PassiveClock

	mu    sync.Mutex
	found []string
	at    time.Time
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

// get returns the addresses, the primary one first. While there are none, each call searches again.
func (a *addresses) get() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.found) == 0 || a.clock.Since(a.at) >= addressesFresh {
		a.found, a.at = a.find(), a.clock.Now()
	}
	return a.found
}
