package history

import "slices"

// Instance is what revisions are published under. A process changes it when its store fails or can be used again.
type Instance struct {
	// ID is its name, which cursors carry.
	ID string
	// Temporary is set if the instance ends with this process: its revisions aren't stored.
	Temporary bool
}

// Begin publishes later revisions under another instance. Numbers keep rising. The next revision wakes all
// readers.
func (h *History) Begin(instance Instance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin(instance)
}

// begin is Begin. The caller holds mu.
func (h *History) begin(instance Instance) {
	// Streams report it.
	h.begun = h.begun || h.instance != instance
	h.instance = instance
	if !slices.Contains(h.instances, instance.ID) {
		h.instances = append(h.instances, instance.ID)
	}
}

// Forsake is Begin for a process that was started with an old copy of its store: the numbers of the current instance may
// have been used for other revisions, so that its cursors aren't accepted any more. It is called once.
func (h *History) Forsake(instance Instance) {
	h.mu.Lock()
	old := h.instance.ID
	h.forsaken.Store(&old)
	h.begin(instance)
	h.instances = slices.DeleteFunc(h.instances, func(id string) bool { return id == old })
	h.mu.Unlock()
	h.Wake()
}

// IsForsaken reports whether Forsake was called for the named instance. A stream that began with a cursor of it may have
// missed revisions. It is known before anything is published under another instance.
func (h *History) IsForsaken(instance string) bool {
	old := h.forsaken.Load()
	return old != nil && *old == instance
}

// Instance is what revisions are currently published under.
func (h *History) Instance() Instance {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.instance
}

// Knows reports whether revision numbers of the named instance have the same meaning as those of the current one. All
// instances of one process do, as its numbers keep rising.
func (h *History) Knows(instance string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Contains(h.instances, instance)
}
