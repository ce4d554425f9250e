package events

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Event is an event of a pod, which may have occurred several times.
type Event struct {
	UID             types.UID
	Namespace, Name string
	// Source is the source that the pod came from.
	Source string
	// Container is the container of the event. Empty: the pod as a whole.
	Container string
	// Type is Normal or Warning, and Reason is one of those above.
	Type, Reason, Message string
	// Count is how often the event occurred, and First and Last are the times.
	Count       int32
	First, Last time.Time
}

// Sink receives events. It must not block.
type Sink interface {
	// Record is called for each event: in order for one goroutine, concurrently for several. The pod must not be
	// changed.
	Record(pod *v1.Pod, container, eventType, reason, message string)
}

// Config configures a Recorder.
type Config struct {
	// Sink receives every event. Nil: there is none.
	Sink Sink
	// Keep is how many different events are kept; beyond that the oldest is dropped. Zero means 4096.
	Keep int
	// KeepPerPod is how many of them one pod may have, so that no pod displaces all others' events. Zero means 256.
	KeepPerPod int
	// Clock gives the times of events. Nil means the real one.
	Clock clock.PassiveClock
}

// Recorder records events. It is safe for concurrent use; a nil Recorder discards.
type Recorder struct {
	cfg Config

	mu sync.Mutex
	// last is the position of the newest event.
	last uint64
	// order has the kept events (*kept) by position, the oldest first. An event that repeats moves to the end.
	order  *list.List
	byKind map[kind]*list.Element
	// ofPod is the number of kept events of each pod.
	ofPod   map[types.UID]int
	changed chan struct{}
}

type kept struct {
	position uint64
	event    Event
}

// kind has the fields in which two events are equal that count as one.
type kind struct {
	uid                                   types.UID
	container, eventType, reason, message string
}

// New returns a Recorder without events.
func New(cfg Config) *Recorder {
	if cfg.Keep == 0 {
		cfg.Keep = 4096
	}
	if cfg.KeepPerPod == 0 {
		cfg.KeepPerPod = 256
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Recorder{
		cfg: cfg, order: list.New(), byKind: map[kind]*list.Element{}, ofPod: map[types.UID]int{}, changed: make(chan struct{}),
	}
}

// Record records an event of the pod, or of one of its containers. A message of more than 4 KiB is cut, and invalid
// UTF-8, as in a probe's output, becomes U+FFFD.
func (r *Recorder) Record(pod *v1.Pod, container, eventType, reason, message string) {
	if r == nil {
		return
	}
	message = Presentable(message)
	r.keep(pod, container, eventType, reason, message)
	if r.cfg.Sink != nil {
		r.cfg.Sink.Record(pod, container, eventType, reason, message)
	}
}

// maxMessage is how many bytes of a message are kept.
const maxMessage = 4 << 10

// Presentable returns the message bounded and as valid UTF-8: a container's output may be of any size, and binary.
func Presentable(message string) string { return PresentableIn(message, maxMessage) }

// PresentableIn is Presentable with another limit in bytes.
func PresentableIn(message string, limit int) string {
	short, long := cut(message, limit)
	// U+FFFD has three bytes, and may replace one.
	valid, longer := cut(strings.ToValidUTF8(short, "\uFFFD"), limit)
	if long || longer {
		return valid + "…"
	}
	return valid
}

// cut returns at most limit bytes of the text, which end with a whole character, and reports whether it had more.
func cut(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	end := limit
	for end > max(limit-utf8.UTFMax, 0) && !utf8.RuneStart(text[end]) {
		end--
	}
	// A copy, so that the rest can be freed.
	return strings.Clone(text[:end]), true
}

func (r *Recorder) keep(pod *v1.Pod, container, eventType, reason, message string) {
	now := r.cfg.Clock.Now()
	k := kind{pod.UID, container, eventType, reason, message}
	r.mu.Lock()
	defer r.mu.Unlock()
	element := r.byKind[k]
	if element == nil {
		element = r.order.PushBack(&kept{event: Event{
			UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: podmeta.Source(pod),
			Container: container, Type: eventType, Reason: reason, Message: message, First: now,
		}})
		r.byKind[k] = element
		r.ofPod[pod.UID]++
	}
	r.order.MoveToBack(element)
	r.last++
	entry := element.Value.(*kept)
	entry.position = r.last
	entry.event.Count++
	entry.event.Last = now
	switch {
	case r.ofPod[pod.UID] > r.cfg.KeepPerPod:
		oldest := r.order.Front()
		for oldest.Value.(*kept).event.UID != pod.UID {
			oldest = oldest.Next()
		}
		r.drop(oldest)
	case r.order.Len() > r.cfg.Keep:
		r.drop(r.order.Front())
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Recorder) drop(element *list.Element) {
	old := r.order.Remove(element).(*kept).event
	delete(r.byKind, kind{old.UID, old.Container, old.Type, old.Reason, old.Message})
	if r.ofPod[old.UID]--; r.ofPod[old.UID] == 0 {
		delete(r.ofPod, old.UID)
	}
}

// After returns the events after a position, oldest first, the position of the newest, and a channel that is closed
// when there are more. Position 0 is before all. Its cost is proportional to the result.
func (r *Recorder) After(position uint64) (events []Event, last uint64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.order.Back(); e != nil; e = e.Prev() {
		entry := e.Value.(*kept)
		if entry.position <= position {
			break
		}
		events = append(events, entry.event)
	}
	slices.Reverse(events)
	return events, r.last, r.changed
}
