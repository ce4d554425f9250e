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
	place    place // the position of the reader and of the consumer
	messages int   // the number of messages to play
	lastSent time.Time
}

// play sends the rest of the recording.
func (p *player) play() error {
	start, from := p.clock.Now(), p.place.at
	if p.place.synced {
		// A consumer that resumes also waits for synced on the new stream.
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

// scaled returns the playing time of d at a speed.
func scaled(d time.Duration, speed float64) time.Duration {
	return time.Duration(min(float64(d)/speed, float64(longest)))
}

// wait sends heartbeats until the given time. If the time is zero, it sends them until the stream ends.
func (p *player) wait(until time.Time) error {
	for {
		now := p.clock.Now()
		if !until.IsZero() && !now.Before(until) {
			return p.ended()
		}
		next := until
		if beat := p.lastSent.Add(p.heartbeat); p.mayHeartbeat() && (until.IsZero() || beat.Before(until)) {
			if next = beat; !now.Before(beat) {
				if err := p.sendHeartbeat(); err != nil {
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

// sleep waits until the given time, which is after now. If the time is zero, it waits until the stream ends.
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

// ended returns the error of a stream that has ended, and nil before that.
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

// mayHeartbeat reports whether a heartbeat can be sent. Before synced, the state of the sources isn't known. Within a
// revision, there is no current revision to report.
func (p *player) mayHeartbeat() bool { return p.place.synced && !p.place.inside }

func (p *player) sendHeartbeat() error {
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
