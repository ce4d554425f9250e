package eviction

import (
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

// Conditions are the node's conditions of the Manager's last synchronization. They exist before the agent, which
// admits pods against them, and are safe for concurrent use.
type Conditions struct {
	mu  sync.Mutex
	has map[v1.NodeConditionType]bool
}

// NewConditions returns Conditions without any set.
func NewConditions() *Conditions { return &Conditions{} }

// Admit reports whether the pod must wait because of the node's conditions, and why. A pod that would be evicted
// again is refused, also a static pod, unless it declares itself critical. The agent retries it.
func (c *Conditions) Admit(pod *v1.Pod) (why admit.Rejection, refused bool) {
	return admitUnder(c.get(), pod)
}

// Pressure returns the conditions.
func (c *Conditions) Pressure() nodestatus.Pressure {
	has := c.get()
	return nodestatus.Pressure{Memory: has[v1.NodeMemoryPressure], Disk: has[v1.NodeDiskPressure], PID: has[v1.NodePIDPressure]}
}

// get returns a map that callers must not change.
func (c *Conditions) get() map[v1.NodeConditionType]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.has
}

func (c *Conditions) set(has map[v1.NodeConditionType]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has = has
}
