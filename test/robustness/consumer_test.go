package robustness

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// savedPlaces is how many of its cursors a consumer remembers.
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
	// asked is how it began its stream, until the first unit shows what came of it.
	asked *podconfigv1.WatchPodUpdatesRequest
	// holds is what it holds, and saved what it held at its last cursors. The stream's goroutine writes them while
	// there is one.
	holds *replica
	saved []savedPlace
}

// savedPlace is a cursor that a consumer may come back with, and what it held there.
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

// honoured reports whether a daemon that begins a stream with the cursor first went on from the cursor from.
func honoured(from, first *podconfigv1.Cursor) bool {
	return from.GetInstanceId() == first.GetInstanceId() && from.GetView() == first.GetView() &&
		from.GetRevision() <= first.GetRevision()
}

func same(a, b *podconfigv1.Cursor) bool {
	return a.GetInstanceId() == b.GetInstanceId() && a.GetRevision() == b.GetRevision() && a.GetView() == b.GetView()
}

// known is what it holds, as it tells the daemon.
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

// subscribe begins a stream and reads up to the given number of messages; all of them if it is negative.
func (c *consumer) subscribe(api podconfigv1.PodConfigServiceClient, req *podconfigv1.WatchPodUpdatesRequest, credit int) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{
		consumer: c, recorder: c.ConsumerRecorder.Subscribe(req), cancel: cancel, credit: credit,
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

// drop ends the stream from the consumer's side.
func (c *consumer) drop() {
	c.stream.leave()
	c.stream.cancel()
	<-c.stream.ended
	c.stream = nil
}

// stream is one subscription. A goroutine reads it, as far as it has credit.
type stream struct {
	consumer *consumer
	recorder *StreamRecorder
	cancel   context.CancelFunc
	// ended is closed when the goroutine has ended.
	ended chan struct{}
	// news has an entry if something has come since it was last looked at.
	news chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	// credit is how many messages may yet be read; negative: all.
	credit int
	// idle is set while the goroutine waits for credit.
	idle bool
	// left is set once an end of the stream is no fault of the daemon.
	left   bool
	over   bool
	synced bool
	// at is the revision up to which everything has come.
	at uint64
}

// receiver is the client's end of a WatchPodUpdates call.
type receiver interface {
	Recv() (*podconfigv1.WatchPodUpdatesResponse, error)
}

func (s *stream) run(rpc receiver) {
	defer close(s.ended)
	// A call that isn't canceled leaks.
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

// wait waits until another message may be read, and is false if there will be none.
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

// close says that nothing more will come.
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

// allow lets so many messages more be read, or with a negative number all; zero stops the reading.
func (s *stream) allow(credit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit = credit
	s.changed.Signal()
}

// reading reports whether it reads all that comes.
func (s *stream) reading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credit < 0 && !s.over
}

// leave says that the end of the stream, which is to come, is no fault of the daemon.
func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	s.changed.Signal()
}

// reached reports whether the stream is synced and everything up to the revision has come, or the stream is over.
func (s *stream) reached(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.synced && s.at >= number
}

// spent reports whether all credit is used up, or reached.
func (s *stream) spent(number uint64) bool {
	s.mu.Lock()
	idle := s.idle && s.credit == 0
	s.mu.Unlock()
	return idle || s.reached(number)
}

// await waits until done says so of the revision. hurry makes the daemon tell that everything has come where it has
// nothing else to say. It is false if that takes longer than patience.
func (s *stream) await(done func(*stream, uint64) bool, number uint64, hurry func() bool, patience time.Duration) bool {
	const (
		shortly = 500 * time.Microsecond
		longest = 20 * time.Millisecond
	)
	end, pause := time.Now().Add(patience), shortly
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for !done(s, number) {
		select {
		case <-s.news:
		case <-timer.C:
			if time.Now().After(end) {
				return false
			}
			hurry()
			pause = min(2*pause, longest)
			timer.Reset(pause)
		}
	}
	return true
}
