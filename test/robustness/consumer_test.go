package robustness

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// savedPlaces is the number of cursors that a consumer stores.
const savedPlaces = 6

// consumer subscribes, reads, stops reading, drops its stream and resumes. Its methods must not be called concurrently.
type consumer struct {
	*ConsumerRecorder
	name   string
	mode   podconfigv1.NotificationMode
	filter *podconfigv1.PodFilter
	format podconfigv1.PodFormat
	// stream is nil while there is none.
	stream *stream
	// asked is the request of its stream, until the first unit shows the daemon's answer.
	asked *podconfigv1.WatchPodUpdatesRequest
	// holds are the consumer's pods, and saved are its pods at its last cursors. While there is a stream, only
	// the stream's goroutine writes them.
	holds *replica
	saved []savedPlace
}

// savedPlace is a cursor from which a consumer may resume, and its pods there.
type savedPlace struct {
	cursor *podconfigv1.Cursor
	held   *replica
}

func newConsumer(rec *Recorder, name string) *consumer {
	return &consumer{ConsumerRecorder: rec.Consumer(name), name: name, holds: newReplica()}
}

// take applies a unit.
func (c *consumer) take(u *unit) {
	if first := c.asked; first != nil && u.cursor != nil {
		c.asked = nil
		if from := first.GetResumeAfter(); len(first.GetKnownPods()) > 0 && !honoured(from, u.cursor) {
			c.holds.doubt()
		}
	}
	c.holds.apply(u)
	if u.cursor == nil {
		return
	}
	c.saved = slices.DeleteFunc(c.saved, func(s savedPlace) bool { return same(s.cursor, u.cursor) })
	if len(c.saved) == savedPlaces {
		c.saved = slices.Delete(c.saved, 0, 1)
	}
	c.saved = append(c.saved, savedPlace{u.cursor, c.holds.clone()})
}

// honoured reports whether a daemon whose first cursor is first resumed from the cursor from.
func honoured(from, first *podconfigv1.Cursor) bool {
	return from.GetInstanceId() == first.GetInstanceId() && from.GetView() == first.GetView() &&
		from.GetRevision() <= first.GetRevision()
}

func same(a, b *podconfigv1.Cursor) bool {
	return a.GetInstanceId() == b.GetInstanceId() && a.GetRevision() == b.GetRevision() && a.GetView() == b.GetView()
}

// known returns the consumer's pods as known_pods.
func (c *consumer) known() []*podconfigv1.KnownPod {
	var out []*podconfigv1.KnownPod
	for _, uid := range slices.Sorted(maps.Keys(c.holds.pods)) {
		h := c.holds.pods[uid]
		out = append(out, &podconfigv1.KnownPod{
			Uid: h.uid, Source: h.source, Namespace: h.namespace, Name: h.name, SpecDigest: h.spec, StatusDigest: h.status,
		})
	}
	return out
}

// subscribe starts a stream and reads up to the given number of messages. If it is negative, it reads all.
func (c *consumer) subscribe(api podconfigv1.PodConfigServiceClient, req *podconfigv1.WatchPodUpdatesRequest, credit int) error {
	return c.open(api, req, credit, c.ConsumerRecorder.Subscribe(req))
}

// open is subscribe with a recorder.
func (c *consumer) open(
	api podconfigv1.PodConfigServiceClient, req *podconfigv1.WatchPodUpdatesRequest, credit int, recorder *StreamRecorder,
) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{
		consumer: c, recorder: recorder, cancel: cancel, credit: credit,
		ended: make(chan struct{}), news: make(chan struct{}, 1),
	}
	s.changed = sync.NewCond(&s.mu)
	rpc, err := api.WatchPodUpdates(ctx, req)
	if err != nil {
		cancel()
		return err
	}
	c.holds.begin()
	c.holds.leaves(req.GetKnownPods())
	c.stream, c.asked = s, req
	go s.run(rpc)
	return nil
}

// drop ends the stream, as the consumer does.
func (c *consumer) drop() {
	c.stream.leave()
	c.stream.cancel()
	<-c.stream.ended
	c.stream = nil
}

// stream is one subscription. A goroutine reads as many messages as the credit allows.
type stream struct {
	consumer *consumer
	recorder *StreamRecorder
	cancel   context.CancelFunc
	// ended is closed when the goroutine has ended.
	ended chan struct{}
	// news has an entry if something was received since the last look.
	news chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	// credit is how many more messages may be read. If it is negative, all may.
	credit int
	// idle is set while the goroutine waits for credit.
	idle bool
	// left is set when the end of the stream is no fault of the daemon.
	left   bool
	over   bool
	synced bool
	// holding is set while a source is held.
	holding bool
	// at is the last revision that was received completely.
	at uint64
}

// receiver is the client's end of a WatchPodUpdates call.
type receiver interface {
	Recv() (*podconfigv1.WatchPodUpdatesResponse, error)
}

func (s *stream) run(rpc receiver) {
	defer close(s.ended)
	// A call that isn't canceled leaks a goroutine.
	defer s.cancel()
	defer s.close()
	var open unit
	for s.wait() {
		m, err := rpc.Recv()
		if err != nil {
			s.end(err)
			return
		}
		s.recorder.Receive(m)
		r := Received{Message: m}
		switch {
		case m.GetHeartbeat() != nil && m.GetCursor() == nil:
			s.consumer.take(&unit{messages: []Received{r}})
		default:
			open.messages = append(open.messages, r)
			if open.cursor = m.GetCursor(); open.cursor != nil {
				s.consumer.take(&open)
				open = unit{}
			}
		}
		s.came(m)
	}
}

// wait waits until another message may be read, and reports whether one may.
func (s *stream) wait() bool {
	s.mu.Lock()
	if s.credit == 0 && !s.left {
		from := time.Now()
		s.idle = true
		s.signal()
		for s.credit == 0 && !s.left {
			s.changed.Wait()
		}
		s.idle = false
		s.mu.Unlock()
		s.recorder.Stall(from)
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.credit > 0 {
		s.credit--
	}
	return !s.left
}

func (s *stream) came(m *podconfigv1.WatchPodUpdatesResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = s.synced || m.GetSynced() != nil
	if list := slices.Concat(m.GetSynced().GetSources(), m.GetHeartbeat().GetSources()); len(list) > 0 {
		s.holding = slices.ContainsFunc(list, func(r *podconfigv1.SourceReadiness) bool { return r.GetHeldReason() != "" })
	}
	s.at = max(s.at, m.GetCursor().GetRevision(), m.GetHeartbeat().GetRevision())
	s.signal()
}

func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left {
		s.recorder.End(err, false)
	}
}

// close marks that no more messages are read.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// allow adds credit. A negative number allows all messages; zero stops the reading.
func (s *stream) allow(credit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit = credit
	s.changed.Signal()
}

// reading reports whether the stream reads all messages.
func (s *stream) reading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credit < 0 && !s.over
}

// leave marks that the end of the stream, which follows, is no fault of the daemon.
func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	s.changed.Signal()
}
