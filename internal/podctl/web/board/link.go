package board

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/web/feed"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
)

// The states of a Link.
const (
	connecting = podwebv1.ConnectionState_CONNECTION_STATE_CONNECTING
	live       = podwebv1.ConnectionState_CONNECTION_STATE_LIVE
	broken     = podwebv1.ConnectionState_CONNECTION_STATE_BROKEN
	ended      = podwebv1.ConnectionState_CONNECTION_STATE_ENDED
)

// Link is the state of one stream or list of a daemon. Its messages are replaced, never changed.
type Link struct {
	*feed.Value[*podwebv1.Connection]
	now func() time.Time
}

// NewLink returns a Link that isn't connected yet.
func NewLink(now func() time.Time) *Link {
	return &Link{Value: feed.NewValue(&podwebv1.Connection{State: connecting, Since: timestamppb.New(now())}), now: now}
}

// Live records that what is shown is current.
func (l *Link) Live() { l.set(live, "") }

// Broken records that the daemon went away.
func (l *Link) Broken(why string) { l.set(broken, why) }

// Ended records that nothing comes by itself.
func (l *Link) Ended(why string) { l.set(ended, why) }

// set keeps the time if only the reason changes.
func (l *Link) set(state podwebv1.ConnectionState, why string) {
	why = plaintext.Line(why, plaintext.Message)
	if old, _ := l.Get(); old.GetState() == state && old.GetText() == why {
		return
	}
	l.Change(func(old *podwebv1.Connection) *podwebv1.Connection {
		since := old.GetSince()
		if old.GetState() != state {
			since = timestamppb.New(l.now())
		}
		return &podwebv1.Connection{State: state, Text: why, Since: since}
	})
}

// Both returns the worse one of two connections, with the reasons of both. One that was ended is no worse than a live one.
func Both(a, b *podwebv1.Connection) *podwebv1.Connection {
	rank := func(c *podwebv1.Connection) int {
		switch c.GetState() {
		case broken:
			return 3
		case connecting:
			return 2
		case live:
			return 1
		}
		return 0
	}
	if rank(b) > rank(a) {
		a, b = b, a
	}
	if b.GetText() == "" {
		return a
	}
	text := b.GetText()
	if a.GetText() != "" {
		text = a.GetText() + "; " + text
	}
	return &podwebv1.Connection{State: a.GetState(), Text: text, Since: a.GetSince()}
}
