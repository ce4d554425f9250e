package node

import (
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
)

// add creates a Node as another client.
func (a *apiServer) add(node *v1.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store("ADDED", node)
}

// change changes the Node as another client.
func (a *apiServer) change(do func(*v1.Node)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	node := a.node.DeepCopy()
	do(node)
	a.store("MODIFIED", node)
}

func (a *apiServer) remove() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store("DELETED", nil)
}

// goAway has the server not answer any more, and breaks its watches off; or the reverse.
func (a *apiServer) goAway(away bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = away
	for w := range a.watches {
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}
	clear(a.watches)
}

// now is a copy of the Node, or nil.
func (a *apiServer) now() *v1.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node.DeepCopy()
}

// held is a copy of the lease, and when it was renewed.
func (a *apiServer) held() (*coordinationv1.Lease, []time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease.DeepCopy(), slices.Clone(a.renewed)
}

// taken are how many calls of each name there were since the last time.
func (a *apiServer) taken() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]int{}
	for _, call := range a.calls {
		out[call]++
	}
	a.calls = nil
	maps.DeleteFunc(out, func(call string, _ int) bool { return strings.HasSuffix(call, "lease") })
	return out
}
