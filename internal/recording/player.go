package recording

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// player plays a recording, or the rest of it, to one consumer.
type player struct {
	clock     clock.Clock
	speed     float64
	heartbeat time.Duration
	closing   <-chan struct{}
	stream    grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]

	reader   *Reader
	place    place // of reader, and of the consumer
	messages int   // where the recording ends
	lastSent time.Time
}

// play sends what is left of the recording.
func (p *player) play() error {
	start, from := p.clock.Now(), p.place.at
	if p.place.synced {
		// Who resumes waits for it on the new stream too.
		err := p.send(&podconfigv1.WatchPodUpdatesResponse{
			Event:  &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{Sources: p.place.sources}},
			Cursor: p.place.cursor,
		})
		if err != nil {
			return err
		}
	}
	for p.place.passed < p.messages {
		e, err := p.reader.Read()
		if err != nil {
			return unreadable(err)
		}
		if p.speed > 0 {
			if err := p.wait(start.Add(scaled(e.At-from, p.speed))); err != nil {
				return err
			}
		}
		if err := p.send(e.Message); err != nil {
			return err
		}
		p.place.pass(e)
	}
	return nil
}

// scaled is how long it takes at a speed to play what took d.
func scaled(d time.Duration, speed float64) time.Duration {
	return time.Duration(min(float64(d)/speed, float64(longest)))
}

// wait waits until a time, or for the end of the stream if it is zero, and meanwhile gives signs of life.
func (p *player) wait(until time.Time) error {
	for {
		now := p.clock.Now()
		if !until.IsZero() && !now.Before(until) {
			return p.ended()
		}
		next := until
		if beat := p.lastSent.Add(p.heartbeat); p.mayBeat() && (until.IsZero() || beat.Before(until)) {
			if next = beat; !now.Before(beat) {
				if err := p.beat(); err != nil {
					return err
				}
				continue
			}
		}
		if err := p.sleep(now, next); err != nil {
			return err
		}
	}
}

// sleep waits until a time after now, or for the end of the stream if it is zero.
func (p *player) sleep(now, until time.Time) error {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := p.clock.NewTimer(until.Sub(now))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-due:
		return nil
	case <-p.stream.Context().Done():
	case <-p.closing:
	}
	return p.ended()
}

// ended is the error of a stream that has ended; nil while it hasn't.
func (p *player) ended() error {
	select {
	case <-p.closing:
		return status.Error(codes.Unavailable, "the replay was stopped")
	default:
	}
	if err := p.stream.Context().Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// mayBeat tells whether a heartbeat can be true: before synced nobody knows the sources, and within a revision nobody is at any.
func (p *player) mayBeat() bool { return p.place.synced && !p.place.inside }

func (p *player) beat() error {
	return p.send(&podconfigv1.WatchPodUpdatesResponse{
		Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
			Revision: p.place.cursor.GetRevision(), Sources: p.place.sources, StoreState: p.place.store,
		}},
	})
}

func (p *player) send(m *podconfigv1.WatchPodUpdatesResponse) error {
	if err := p.ended(); err != nil {
		return err
	}
	p.lastSent = p.clock.Now()
	return p.stream.Send(m)
}
