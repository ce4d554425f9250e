package events

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Event is something that happened to a pod, once or several times.
type Event struct {
	UID             types.UID
	Namespace, Name string
	// Source is the source that the pod came from.
	Source string
	// Container is the container that it is about. Empty: the pod as a whole.
	Container string
	// Type is Normal or Warning, Reason one of those above.
	Type, Reason, Message string
	// Count is how often it happened, First and Last when.
	Count       int32
	First, Last time.Time
}

// Sink takes events further. It must not block.
type Sink interface {
	// Record is called for each event, in order. The pod must not be changed.
	Record(pod *v1.Pod, container, eventType, reason, message string)
}

// Config says where events go.
type Config struct {
	// Sink gets every event. Nil: nobody does.
	Sink Sink
	// Keep is how many different events are kept. Zero means 4096.
	Keep int
	// Clock tells when something happened. Nil means the real one.
	Clock clock.PassiveClock
}

// Recorder takes events. It is safe for concurrent use; a nil Recorder discards.
type Recorder struct {
	cfg Config

	mu sync.Mutex
	// last is the position of the newest event; events are by position, those that were counted again at their newest.
	last   uint64
	events map[uint64]*Event
	// oldest is the lowest position that may still be there.
	oldest  uint64
	byKind  map[kind]uint64
	changed chan struct{}
}

// kind is what two events have in common that are counted as one.
type kind struct {
	uid                                   types.UID
	container, eventType, reason, message string
}

// New returns a Recorder without events.
func New(cfg Config) *Recorder {
	if cfg.Keep == 0 {
		cfg.Keep = 4096
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Recorder{cfg: cfg, events: map[uint64]*Event{}, byKind: map[kind]uint64{}, changed: make(chan struct{}), oldest: 1}
}

// sourceAnnotation is where a pod bears its source's name.
const sourceAnnotation = "kubernetes.io/config.source"

// Record notes that something happened to the pod, or to one of its containers.
func (r *Recorder) Record(pod *v1.Pod, container, eventType, reason, message string) {
	if r == nil {
		return
	}
	r.keep(pod, container, eventType, reason, message)
	if r.cfg.Sink != nil {
		r.cfg.Sink.Record(pod, container, eventType, reason, message)
	}
}

func (r *Recorder) keep(pod *v1.Pod, container, eventType, reason, message string) {
	now := r.cfg.Clock.Now()
	k := kind{pod.UID, container, eventType, reason, message}
	r.mu.Lock()
	defer r.mu.Unlock()
	event := &Event{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Annotations[sourceAnnotation],
		Container: container, Type: eventType, Reason: reason, Message: message, First: now,
	}
	if at, ok := r.byKind[k]; ok {
		// A copy: readers hold the one before.
		counted := *r.events[at]
		event = &counted
		delete(r.events, at)
	}
	event.Count++
	event.Last = now
	r.last++
	r.events[r.last], r.byKind[k] = event, r.last
	for len(r.events) > r.cfg.Keep {
		if old := r.events[r.oldest]; old != nil {
			delete(r.events, r.oldest)
			delete(r.byKind, kind{old.UID, old.Container, old.Type, old.Reason, old.Message})
		}
		r.oldest++
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// After returns the events that happened after a position, oldest first, the position of the newest, and a channel that is closed
// when there are more. Position 0 is before all.
func (r *Recorder) After(position uint64) (events []Event, last uint64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := max(position+1, r.oldest); at <= r.last; at++ {
		if e := r.events[at]; e != nil {
			events = append(events, *e)
		}
	}
	return events, r.last, r.changed
}
