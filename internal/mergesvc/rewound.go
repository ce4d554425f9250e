package mergesvc

import (
	"github.com/podstream/podstream/internal/mergesvc/history"
)

// Rewound is called with the revision in a cursor of the current instance. If that revision was never published, another
// process published it under this instance, and this one was started with an older copy of the store: then the instance
// is renewed, before the number is used again. As a consumer may claim any revision, that is done once.
func (h *Hub) Rewound(shown uint64) {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	old := h.history.Instance()
	if h.rewound || old.Temporary || shown <= h.history.Number() {
		return
	}
	h.rewound = true
	state := h.history.State()
	var instance history.Instance
	h.withDisk(func() { instance = h.keeper.renew(state) })
	h.history.Forsake(instance)
	if h.cfg.Durable != nil {
		h.cfg.Durable(!instance.Temporary)
	}
	h.log.Error("a consumer has a later revision of this store than the store itself: the disk has an older copy. Revisions are "+
		"published under another instance ID from now on, so that consumers compare all their pods",
		"revision", h.history.Number(), "shown", shown, "instance", instance.ID, "before", old.ID)
}
