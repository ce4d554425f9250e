package robustness

import (
	"time"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// History is everything that happened in one simulation.
type History struct {
	// Steps are what was done to the daemon, one after the other. The first is a Start.
	Steps []Step
	// Consumers are those that subscribed, each with all its streams.
	Consumers []*Consumer
	// Patience is how long a merge, or a message to a consumer that reads, may take before it counts as held up.
	// Zero: 30 s, on a machine that may be busy.
	Patience time.Duration
	// Revisions is how many revisions the daemon keeps for exact history. Zero: 1024.
	Revisions int
}

// Step is one thing that was done to the daemon: one of Start, Set and Configure is there.
type Step struct {
	// Start is set if the daemon was started.
	Start *Start
	// Configure are the sources, in order of priority, that it was told to have from then on. Nil: it wasn't told.
	Configure []string
	// Set is what a source handed over. If its ReadTime isn't known it is zero, and nothing that follows from it is
	// checked.
	Set *manifest.Set
	// Instance and Revision are what the daemon was at after the step.
	Instance string
	Revision uint64
	// Temporary is set if the revisions weren't stored then.
	Temporary bool
	// Killed is set if the daemon was killed before it had answered. Instance and Revision then mean nothing: whether
	// the step took place shows at the next start.
	Killed bool
	// Begun and Ended are when. Ended is zero if the daemon never answered though it wasn't killed.
	Begun, Ended time.Time
}

// Start is a start of the daemon: the first, or one after a kill.
type Start struct {
	// Sources are those that are configured, in order of priority.
	Sources []string
	// Kept is set if the store of the life before was still there, undamaged.
	Kept bool
}

// Consumer is one subscriber, over all its streams.
type Consumer struct {
	Name    string
	Streams []*Stream
}

// Stream is one call of WatchPodUpdates.
type Stream struct {
	// Life counts the starts of the daemon before this stream: it belongs to the last of them, the first being 1.
	Life    int
	Request *podconfigv1.WatchPodUpdatesRequest
	Begun   time.Time
	// Received are the messages, in order.
	Received []Received
	// Stalls are when the consumer didn't read.
	Stalls []Stall
	// Err is what ended the stream against the will of the consumer. Nil if the consumer ended it, if the daemon was
	// killed, or if the stream outlived the simulation.
	Err error
	// Drained is set if the consumer went on reading until the daemon had nothing more to send.
	Drained bool
}

// Received is one message and when it came.
type Received struct {
	At      time.Time
	Message *podconfigv1.WatchPodUpdatesResponse
}

// Stall is a time in which a consumer didn't read.
type Stall struct{ From, To time.Time }

// patience is Patience or its default.
func (h *History) patience() time.Duration {
	if h.Patience == 0 {
		return 30 * time.Second
	}
	return h.Patience
}

// revisions is Revisions or its default.
func (h *History) revisions() uint64 {
	if h.Revisions == 0 {
		return 1024
	}
	return uint64(h.Revisions)
}

// stalled reports whether the consumer didn't read for some of the time between the two moments.
func (s *Stream) stalled(from, to time.Time) bool {
	for _, stall := range s.Stalls {
		if stall.From.Before(to) && stall.To.After(from) {
			return true
		}
	}
	return false
}
