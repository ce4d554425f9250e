package recording_test

import (
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Each consumer gets all messages as they were recorded. Then the stream stays open, with heartbeats at the requested
// interval.
func TestReplay(t *testing.T) {
	path := file(t, example())
	for _, tc := range []struct {
		asked *durationpb.Duration
		want  time.Duration
	}{
		{nil, 30 * time.Second}, {durationpb.New(0), 30 * time.Second},
		{durationpb.New(time.Millisecond), time.Second}, {durationpb.New(5 * time.Second), 5 * time.Second},
	} {
		clock := newStepClock()
		r := serve(t, recording.ServerConfig{Path: path, Clock: clock})
		s := r.watch(&podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: tc.asked})
		s.want(messagesOf(example())...)
		for range 2 {
			if got := <-clock.timers; got != tc.want {
				t.Fatalf("heartbeat_interval %v: the next is due in %v; want %v", tc.asked, got, tc.want)
			}
			clock.Step(tc.want)
			s.want(heartbeat(7, readiness(true, true)))
		}
	}
}

// Messages are sent at the recorded pace, or faster by the factor Speed. Heartbeats are sent in long pauses, but not
// before synced and not within a revision.
func TestPace(t *testing.T) {
	type step struct {
		timer time.Duration
		then  *message
	}
	e := messagesOf(example())
	alive := heartbeat(5, readiness(true, false))
	initial := heartbeat(4, readiness(true, false))
	initial.GetHeartbeat().StoreState = podconfigv1.StoreState_STORE_STATE_UNSPECIFIED // not reported yet
	for _, tc := range []struct {
		speed float64
		steps []step
	}{
		{1, []step{{time.Second, e[1]}, {time.Second, e[2]}, {time.Second, e[3]}}},
		{4, []step{{250 * time.Millisecond, e[1]}, {250 * time.Millisecond, e[2]}}},
		{0.4, []step{
			{2500 * time.Millisecond, e[1]}, {2500 * time.Millisecond, e[2]},
			{2 * time.Second, initial}, {500 * time.Millisecond, e[3]}, {2500 * time.Millisecond, e[4]},
			{2 * time.Second, heartbeatWithoutStore(5)}, {500 * time.Millisecond, e[5]}, {2 * time.Second, alive},
		}},
	} {
		clock := newStepClock()
		r := serve(t, recording.ServerConfig{Path: file(t, example()), Clock: clock, Speed: tc.speed})
		s := r.watch(&podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: durationpb.New(2 * time.Second)})
		s.want(e[0])
		for i, step := range tc.steps {
			if got := <-clock.timers; got != step.timer {
				t.Fatalf("speed %v, step %d: a timer of %v; want %v", tc.speed, i, got, step.timer)
			}
			clock.Step(step.timer)
			s.want(step.then)
		}
	}
}

func heartbeatWithoutStore(revision uint64) *message {
	m := heartbeat(revision, readiness(true, false))
	m.GetHeartbeat().StoreState = podconfigv1.StoreState_STORE_STATE_UNSPECIFIED
	return m
}

// A consumer that resumes with a cursor of the recording gets synced, which each stream has, and then the following
// messages at their pace.
func TestResume(t *testing.T) {
	e := messagesOf(example())
	initial := op(3, opAdd, "old") // a catch-up of two revisions: a cursor before synced
	list := entries(append([]*message{initial}, e...)...)
	clock := newStepClock()
	r := serve(t, recording.ServerConfig{Path: file(t, list), Clock: clock})
	for name, tc := range map[string]struct {
		cursor *podconfigv1.Cursor
		want   []*message
	}{
		"none":                {nil, messagesOf(list)},
		"before synced":       {cursorAt(3), e},
		"synced":              {cursorAt(4), append([]*message{synced(4, readiness(true, false))}, e[3:]...)},
		"a source is ready":   {cursorAt(6), []*message{synced(6, readiness(true, true)), e[7]}},
		"the end":             {cursorAt(7), []*message{synced(7, readiness(true, true))}},
		"the future":          {cursorAt(8), messagesOf(list)},
		"of another instance": {&podconfigv1.Cursor{InstanceId: "two", Revision: 5, View: "all"}, messagesOf(list)},
		"of another view":     {&podconfigv1.Cursor{InstanceId: "one", Revision: 5, View: "some"}, messagesOf(list)},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.watch(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: tc.cursor})
			s.t = t
			s.want(tc.want...)
			<-clock.timers // the next message would be a heartbeat
		})
	}
	t.Run("pace", func(t *testing.T) {
		clock := newStepClock()
		r := serve(t, recording.ServerConfig{Path: file(t, example()), Clock: clock, Speed: 1})
		s := r.watch(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursorAt(5)})
		s.want(synced(5, readiness(true, false)))
		for _, m := range e[5:] {
			if got := <-clock.timers; got != time.Second {
				t.Fatalf("a timer of %v; want 1s", got)
			}
			clock.Step(time.Second)
			s.want(m)
		}
	})
}

func TestOnce(t *testing.T) {
	var played atomic.Int32
	r := serve(t, recording.ServerConfig{Path: file(t, example()), Once: true, Played: func() { played.Add(1) }})
	for range 2 {
		s := r.watch(&podconfigv1.WatchPodUpdatesRequest{})
		s.want(messagesOf(example())...)
		s.wantEnd(codes.OK)
	}
	if n := played.Load(); n != 1 {
		t.Errorf("Played was called %d times; want once", n)
	}
}
