package service

import (
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/mergesvc/history"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// consumer is one open stream, as ListConsumers shows it. The stream's goroutine writes to it, without locks.
type consumer struct {
	*subscription
	connected time.Time

	// at is the revision that it has been sent.
	at atomic.Uint64
	// cursor is the last one that it was sent.
	cursor atomic.Pointer[podconfigv1.Cursor]
	synced atomic.Bool
	// sending is when the message began that is being handed to the transport, in nanoseconds since 1970; zero if there is none.
	sending atomic.Int64
	parked  atomic.Bool
	parks   atomic.Uint64
}

// state is what the stream is doing.
func (c *consumer) state(number uint64) podconfigv1.ConsumerState {
	switch {
	case c.parked.Load():
		return podconfigv1.ConsumerState_CONSUMER_STATE_PARKED
	case !c.synced.Load() || c.at.Load() < number:
		return podconfigv1.ConsumerState_CONSUMER_STATE_CATCHING_UP
	default:
		return podconfigv1.ConsumerState_CONSUMER_STATE_LIVE
	}
}

// park marks a consumer that hasn't read since before the given time, and tells whether that is news.
func (c *consumer) park(before time.Time) bool {
	since := c.sending.Load()
	if since == 0 || since > before.UnixNano() || !c.parked.CompareAndSwap(false, true) {
		return false
	}
	if c.sending.Load() != since {
		// It has read in this moment, and nobody would unmark it before its next message.
		c.parked.Store(false)
		return false
	}
	c.parks.Add(1)
	return true
}

func (c *consumer) message(h *history.History) *podconfigv1.Consumer {
	number, at := h.Number(), c.at.Load()
	m := &podconfigv1.Consumer{
		Name: c.name, Peer: c.caller.Peer, Identity: c.caller.Identity, State: c.state(number), Cursor: c.cursor.Load(),
		Mode: c.view.Mode(), Format: c.encoding.Format, Filter: c.filter, ConnectedTime: timestamppb.New(c.connected),
		ParkedCount: c.parks.Load(),
	}
	if number > at {
		m.LagRevisions = number - at
		if since := h.WaitingSince(at); !since.IsZero() {
			m.LaggingSince = timestamppb.New(since)
		}
	}
	return m
}
