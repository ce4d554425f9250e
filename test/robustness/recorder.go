package robustness

import (
	"sync"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Recorder records a History. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	history History
	lives   int
}

// NewRecorder returns a Recorder. revisions is the number of revisions that the daemon keeps; see History for
// it and for patience.
func NewRecorder(revisions int, patience time.Duration) *Recorder {
	return &Recorder{history: History{Revisions: revisions, Patience: patience}}
}

// Step adds a step.
func (r *Recorder) Step(step Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step.Start != nil {
		r.lives++
	}
	r.history.Steps = append(r.history.Steps, step)
}

// Gateways makes the history one of several daemons. The caller fills the value in, and doesn't call Step.
func (r *Recorder) Gateways(g *Gateways) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Gateways = g
}

// Consumer adds a consumer.
func (r *Recorder) Consumer(name string) *ConsumerRecorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Consumer{Name: name}
	r.history.Consumers = append(r.history.Consumers, c)
	return &ConsumerRecorder{recorder: r, consumer: c}
}

// History returns the records. Nothing may be recorded after it.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.history
}

// ConsumerRecorder records what one consumer sends and receives.
type ConsumerRecorder struct {
	recorder *Recorder
	consumer *Consumer
}

// Subscribe starts a stream, after the last start of the daemon.
func (c *ConsumerRecorder) Subscribe(request *podconfigv1.WatchPodUpdatesRequest) *StreamRecorder {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	return c.subscribe(c.recorder.lives, request)
}

// SubscribeTo starts a stream, after the given start of a gateway.
func (c *ConsumerRecorder) SubscribeTo(life int, request *podconfigv1.WatchPodUpdatesRequest) *StreamRecorder {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	return c.subscribe(life, request)
}

// subscribe adds a stream. The caller holds mu.
func (c *ConsumerRecorder) subscribe(life int, request *podconfigv1.WatchPodUpdatesRequest) *StreamRecorder {
	s := &Stream{Life: life, Request: request, Begun: time.Now()}
	c.consumer.Streams = append(c.consumer.Streams, s)
	return &StreamRecorder{mu: &c.recorder.mu, stream: s}
}

// StreamRecorder records one stream.
type StreamRecorder struct {
	mu     *sync.Mutex
	stream *Stream
}

// Receive adds a message.
func (s *StreamRecorder) Receive(message *podconfigv1.WatchPodUpdatesResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream.Received = append(s.stream.Received, Received{At: time.Now(), Message: message})
}

// Stall adds a time in which the consumer didn't read, from the given moment to now.
func (s *StreamRecorder) Stall(from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream.Stalls = append(s.stream.Stalls, Stall{From: from, To: time.Now()})
}

// Rest records that everything was read.
func (s *StreamRecorder) Rest(last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream.Rests = append(s.stream.Rests, Rest{At: time.Now(), Received: len(s.stream.Received), Last: last})
}

// End records the error with which the daemon ended the stream, or that it was read until there was nothing
// more.
func (s *StreamRecorder) End(err error, drained bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream.Err, s.stream.Drained = err, drained
}
