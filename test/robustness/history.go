package robustness

import (
	"time"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// History is everything that happened in one simulation.
type History struct {
	// Steps are the actions on the daemon, in order. The first is a Start.
	Steps []Step
	// Consumers are all subscribers, each with all its streams.
	Consumers []*Consumer
	// Patience is the time limit for a merge, and for a message to a consumer that reads. Zero means 30 s,
	// because the machine may be busy.
	Patience time.Duration
	// Revisions is how many revisions the daemon keeps for exact history. Zero means 1024.
	Revisions int
	// Gateways is set if the history is of several daemons. Steps is then empty, and only Forward checks it.
	Gateways *Gateways
}

// Step is one action on the daemon. One of Start, Set and Configure is set.
type Step struct {
	// Start is set if the daemon was started.
	Start *Start
	// Configure are the sources that the daemon was given, in order of priority. Nil means that they didn't
	// change.
	Configure []string
	// Set is the set that a source handed over. If its ReadTime is zero, it isn't known, and nothing that
	// depends on it is checked.
	Set *manifest.Set
	// Instance and Revision are the daemon's position after the step.
	Instance string
	Revision uint64
	// Temporary is set if the revisions weren't stored at that time.
	Temporary bool
	// Killed is set if the daemon was killed before it answered. Instance and Revision are then not valid: the
	// next start shows whether the step took effect.
	Killed bool
	// Begun and Ended are the times of the step. Ended is zero if the daemon never answered although it wasn't
	// killed.
	Begun, Ended time.Time
}

// Start is a start of the daemon: the first, or one after a kill.
type Start struct {
	// Sources are the configured sources, in order of priority.
	Sources []string
	// Kept is set if the store of the previous start still existed, undamaged.
	Kept bool
}

// Consumer is one subscriber, over all its streams.
type Consumer struct {
	Name    string
	Streams []*Stream
}

// Stream is one call of WatchPodUpdates.
type Stream struct {
	// Life is the number of starts of the daemon before this stream: the stream belongs to the last of them.
	// The first is 1.
	Life    int
	Request *podconfigv1.WatchPodUpdatesRequest
	Begun   time.Time
	// Received are the messages, in order.
	Received []Received
	// Stalls are the times in which the consumer didn't read.
	Stalls []Stall
	// Err is the error with which the daemon ended the stream. It is nil if the consumer ended the stream, if
	// the daemon was killed, or if the stream outlived the simulation.
	Err error
	// Drained is set if the consumer read until the daemon had nothing more to send.
	Drained bool
	// Rests are the times at which the consumer of a gateway had read until the gateway had nothing more to send.
	Rests []Rest
}

// Rest is a time at which a consumer had read everything.
type Rest struct {
	At time.Time
	// Received is the number of messages that the stream had received. The last of them ended a unit.
	Received int
	// Last is set if all gateways could read the API server, and had read all.
	Last bool
}

// Received is one message and its time.
type Received struct {
	At      time.Time
	Message *podconfigv1.WatchPodUpdatesResponse
}

// Stall is a time in which a consumer didn't read.
type Stall struct{ From, To time.Time }

// patience returns Patience or its default.
func (h *History) patience() time.Duration {
	if h.Patience == 0 {
		return 30 * time.Second
	}
	return h.Patience
}

// revisions returns Revisions or its default.
func (h *History) revisions() uint64 {
	if h.Revisions == 0 {
		return 1024
	}
	return uint64(h.Revisions)
}

// stalled reports whether the consumer didn't read at some time between the two times.
func (s *Stream) stalled(from, to time.Time) bool {
	for _, stall := range s.Stalls {
		if stall.From.Before(to) && stall.To.After(from) {
			return true
		}
	}
	return false
}
