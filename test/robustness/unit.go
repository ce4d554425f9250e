package robustness

import (
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// unit is what a consumer applies as a whole: the messages up to a cursor. A heartbeat without a cursor is a
// separate unit.
type unit struct {
	messages []Received
	// cursor is nil in a heartbeat without one, and if the stream broke off before the cursor came.
	cursor *podconfigv1.Cursor
	// torn is set if a heartbeat or synced came in the middle of a revision.
	torn bool
}

// units splits a stream at its cursors.
func units(received []Received) []unit {
	var out []unit
	var open unit
	for _, r := range received {
		m := r.Message
		if m.GetHeartbeat() != nil && len(open.messages) > 0 && !isMixed(m.GetCursor()) {
			open.torn = true
		}
		if m.GetHeartbeat() != nil && m.GetCursor() == nil {
			out = append(out, unit{messages: []Received{r}})
			continue
		}
		open.messages = append(open.messages, r)
		if m.GetCursor() != nil {
			open.cursor = m.GetCursor()
			out = append(out, open)
			open = unit{}
		}
	}
	if len(open.messages) > 0 {
		out = append(out, open)
	}
	return out
}

// isMixed reports whether a cursor stands for a mixture of revisions: the history dropped the unit's revision
// while the consumer didn't read. podconfigd doesn't resume from such a cursor, and sends what is missing next.
func isMixed(c *podconfigv1.Cursor) bool { return strings.HasSuffix(c.GetView(), "-passed") }

// mixed reports whether what the consumer has after the unit is no state of the daemon: a mixture of revisions, or that of a
// stream that holds a source, which lacks what the daemon has of it.
func (u *unit) mixed() bool { return isMixed(u.cursor) || isHeld(u.cursor) }

// updates returns the ops of the unit.
func (u *unit) updates() []*podconfigv1.PodUpdate {
	var out []*podconfigv1.PodUpdate
	for _, r := range u.messages {
		if up := r.Message.GetUpdate(); up != nil {
			out = append(out, up)
		}
	}
	return out
}

// heartbeat reports whether the unit is only a heartbeat.
func (u *unit) heartbeat() bool {
	return len(u.messages) == 1 && u.messages[0].Message.GetHeartbeat() != nil
}

// synced reports whether the unit has a SYNCED message: the initial state is complete.
func (u *unit) synced() bool {
	for _, r := range u.messages {
		if r.Message.GetSynced() != nil {
			return true
		}
	}
	return false
}

// observed reports whether the unit is a revision of exact history: a catch-up has no observed_time.
func (u *unit) observed() bool {
	for _, up := range u.updates() {
		if up.GetObservedTime() != nil {
			return true
		}
	}
	return false
}
