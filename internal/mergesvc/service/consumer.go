package service

import (
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// consumer is one open stream, as ListConsumers shows it. The stream's goroutine writes to it without locks.
type consumer struct {
	*subscription
	connected time.Time
	// number counts the streams since the start.
	number uint64
	// course is the history that it follows.
	course course

	// at is the last revision that was sent. Later ones may have passed that don't concern the consumer.
	at atomic.Uint64
	// cursor is the last cursor that was sent.
	cursor atomic.Pointer[podconfigv1.Cursor]
	synced atomic.Bool
	// sending is the time, in nanoseconds since 1970, since when the transport hasn't taken the current message.
	// Zero: there is none.
	sending atomic.Int64
	parked  atomic.Bool
	parks   atomic.Uint64
	// heldSources are the sources that are held for it. Nil: none.
	heldSources atomic.Pointer[[]*podconfigv1.HeldSource]
}

// course is a history that a consumer follows, of pods or of objects, as far as it concerns the consumer.
type course interface {
	// Behind returns how many revisions follow number, from the first one on that concerns the consumer, and since
	// when that one, or the oldest kept one, has been published. Zero: there is none.
	Behind(number uint64) (revisions uint64, since time.Time)
}

// state returns the state of the stream. lag is the number of revisions that it is behind.
func (c *consumer) state(lag uint64) podconfigv1.ConsumerState {
	switch {
	case c.parked.Load():
		return podconfigv1.ConsumerState_CONSUMER_STATE_PARKED
	case !c.synced.Load() || lag > 0:
		return podconfigv1.ConsumerState_CONSUMER_STATE_CATCHING_UP
	default:
		return podconfigv1.ConsumerState_CONSUMER_STATE_LIVE
	}
}

// park marks a consumer that hasn't read since before the given time, and reports whether it wasn't marked already.
func (c *consumer) park(before time.Time) bool {
	since := c.sending.Load()
	if since == 0 || since > before.UnixNano() || !c.parked.CompareAndSwap(false, true) {
		return false
	}
	if c.sending.Load() != since {
		// The consumer has just read, and the mark would stay until its next message.
		c.parked.Store(false)
		return false
	}
	c.parks.Add(1)
	return true
}

func (c *consumer) message() *podconfigv1.Consumer {
	lag, since := c.course.Behind(c.at.Load())
	m := &podconfigv1.Consumer{
		Name: c.name, Peer: c.caller.Peer, Identity: c.caller.Identity, State: c.state(lag), Cursor: c.cursor.Load(),
		Format: c.encoding.Format(), Filter: c.filter, ConnectedTime: timestamppb.New(c.connected),
		ParkedCount: c.parks.Load(), Objects: c.ofObjects,
	}
	if !c.ofObjects {
		m.Mode = c.view.Mode()
	}
	if list := c.heldSources.Load(); list != nil {
		m.HeldSources = *list
	}
	m.LagRevisions = lag
	if !since.IsZero() {
		m.LaggingSince = timestamppb.New(since)
	}
	return m
}
