package history

import "slices"

// Life is the instance that revisions are published under. A process changes it when its store fails or can be used
// again.
type Life struct {
	// Instance is its name, which cursors carry.
	Instance string
	// Temporary is set if the instance ends with this process: its revisions aren't stored.
	Temporary bool
}

// Begin publishes later revisions under another Life. Numbers keep rising.
func (h *History) Begin(life Life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life = life
	if !slices.Contains(h.lives, life.Instance) {
		h.lives = append(h.lives, life.Instance)
	}
}

// Life is what revisions are currently published under.
func (h *History) Life() Life {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.life
}

// Knows reports whether revision numbers of the named instance have the same meaning as those of the current one. All
// instances of one process do, as its numbers keep rising.
func (h *History) Knows(instance string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Contains(h.lives, instance)
}
