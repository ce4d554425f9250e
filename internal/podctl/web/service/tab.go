package service

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
)

const (
	// maxSubscriptions is how many a tab has.
	maxSubscriptions = 32
	// batchTime is the time between two rounds of deliveries, so that many small changes become one.
	batchTime = 100 * time.Millisecond
	// aliveTime is the time between two messages that only show that the stream is alive.
	aliveTime = 5 * time.Second
	// maxDelivery is the size of a delivery in bytes, roughly.
	maxDelivery = 256 << 10
)

// reader reads the news of one topic.
type reader interface {
	// next returns the next delivery, without its id. Nil: nothing is new.
	next() *podwebv1.Delivery
	// close ends what the reader follows.
	close()
}

// tab is the stream of a tab.
type tab struct {
	id string
	// wake gets a value when something may be new.
	wake chan struct{}

	mu            sync.Mutex
	subscriptions []*subscription
}

type subscription struct {
	id string
	reader
}

func newTab() *tab { return &tab{id: rand.Text(), wake: make(chan struct{}, 1)} }

// put adds a subscription, or replaces the one of its id.
func (t *tab) put(s *subscription) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.subscriptions, func(other *subscription) bool { return other.id == s.id }); i >= 0 {
		t.subscriptions[i].close()
		t.subscriptions[i] = s
	} else if len(t.subscriptions) == maxSubscriptions {
		s.close()
		return refuse(connect.CodeResourceExhausted, "the tab has 32 subscriptions: end one of them")
	} else {
		t.subscriptions = append(t.subscriptions, s)
	}
	t.poke()
	return nil
}

// drop ends a subscription.
func (t *tab) drop(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subscriptions = slices.DeleteFunc(t.subscriptions, func(s *subscription) bool {
		if s.id == id {
			s.close()
		}
		return s.id == id
	})
}

// close ends all subscriptions.
func (t *tab) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.subscriptions {
		s.close()
	}
	t.subscriptions = nil
}

func (t *tab) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// next returns the next delivery of each subscription that has one.
func (t *tab) next() []*podwebv1.Delivery {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*podwebv1.Delivery
	for _, s := range t.subscriptions {
		if d := s.next(); d != nil {
			d.Id = s.id
			out = append(out, d)
		}
	}
	return out
}

// Watch is part of podweb.v1.
func (s *Service) Watch(ctx context.Context, req *podwebv1.WatchRequest, stream *connect.ServerStream[podwebv1.WatchResponse]) error {
	if len(req.GetSubscriptions()) > maxSubscriptions {
		return refuse(connect.CodeInvalidArgument, "a tab has 32 subscriptions at most")
	}
	t, err := s.acquire()
	if err != nil {
		return err
	}
	defer t.close()
	defer s.release(t)
	for _, sub := range req.GetSubscriptions() {
		if err := s.subscribe(t, sub, true); err != nil {
			return err
		}
	}
	err = stream.Send(&podwebv1.WatchResponse{Event: &podwebv1.WatchResponse_Opened{
		Opened: &podwebv1.Opened{Tab: t.id, Session: s.session()},
	}})
	if err != nil {
		return err
	}
	return s.deliver(ctx, t, stream)
}

// ready is a channel that never blocks.
var ready = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// deliver sends deliveries until the stream ends. A Send waits until the connection has taken the message.
func (s *Service) deliver(ctx context.Context, t *tab, stream *connect.ServerStream[podwebv1.WatchResponse]) error {
	over := refuse(connect.CodeUnavailable, "podctl web has ended")
	alive := s.cfg.Clock.NewTicker(aliveTime)
	defer alive.Stop()
	for {
		more := false
		for _, d := range t.next() {
			more = more || d.GetMore()
			if err := stream.Send(&podwebv1.WatchResponse{Event: &podwebv1.WatchResponse_Delivery{Delivery: d}}); err != nil {
				return err
			}
		}
		next := ready
		if !more {
			next = t.wake
			if !s.pause(ctx) {
				return over
			}
		}
		select {
		case <-next:
		case <-alive.C():
			m := &podwebv1.WatchResponse{Event: &podwebv1.WatchResponse_Alive{Alive: &podwebv1.Alive{Session: s.session()}}}
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-ctx.Done():
			return over
		}
	}
}

// pause waits for the time between two rounds, and reports whether the stream goes on.
func (s *Service) pause(ctx context.Context) bool {
	timer := s.cfg.Clock.NewTimer(batchTime)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
