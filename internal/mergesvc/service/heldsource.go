package service

import (
	"time"

	"github.com/podstream/podstream/client/position"
)

// heldSource is a source that is held for one consumer.
type heldSource struct {
	reason string
	claim  position.Positions
	since  time.Time
	// moved is set if it is held as the consumer would lose pods by its move, see judgeMove.
	moved bool
	// after are the consumer's positions once it is released.
	after position.Positions
	// number is the confirmation that ends it, and requested when it was requested. Zero: it wasn't.
	number    uint64
	requested time.Time
	// foreign is set if the source wasn't configured here when the stream began, and isn't yet.
	foreign bool
	// lacked is set if the source doesn't have the pods of the consumer's nodes, or didn't before it was removed.
	lacked bool
	// needs is set if only an administrator can end it, since the time needed.
	needs  bool
	needed time.Time
	// changed is set if the reason, or needs, isn't shown yet.
	changed bool
	// read is the number of readings of the source that verdict is by. Zero: there is none.
	read    uint64
	verdict verdict
}

// explain records why the source is held, and whether only an administrator can end that.
func (h *heldSource) explain(text string, needs bool, now time.Time) {
	if needs && !h.needs {
		h.needed = now
	}
	h.changed = h.changed || text != h.reason || needs != h.needs
	h.reason, h.needs = text, needs
}
