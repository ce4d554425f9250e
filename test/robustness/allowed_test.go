package robustness_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// TestAllowed checks that histories which the promises allow, however unusual, are no breach.
func TestAllowed(t *testing.T) {
	for _, test := range []struct {
		name  string
		alter func(damage)
	}{
		{"a stalled consumer is late", func(d damage) {
			s, due := d.stream(exactly, 0), d.Steps[7].Ended
			s.Received[8].At = due.Add(time.Minute)
			s.Stalls = []robustness.Stall{{From: due.Add(-time.Millisecond), To: due.Add(time.Minute)}}
		}},
		{"a stream that breaks within a revision", func(d damage) {
			s := d.stream(exactly, 1)
			m := proto.CloneOf(s.Received[3].Message)
			m.Continued, m.Cursor = true, nil
			s.Received[3].Message, s.Drained = m, false
		}},
		{"a coalesced catch-up has a pod that changed and changed back", func(d damage) {
			u := proto.CloneOf(d.message(behind, 1, 0).GetUpdate())
			u.Op, u.Pods = podconfigv1.PodOperation_POD_OPERATION_RECONCILE, u.GetPods()[:0]
			pod := proto.CloneOf(d.message(behind, 1, 1).GetUpdate().GetPods()[0])
			u.Pods = append(u.GetPods(), pod)
			d.insert(behind, 1, 3, u)
			d.message(behind, 1, 2).Cursor, d.message(behind, 1, 2).Continued = nil, true
			d.message(behind, 1, 3).Cursor, d.message(behind, 1, 3).Continued = cursor(6), false
		}},
		{"revisions that are no longer kept are coalesced", func(d damage) {
			d.Revisions = 1
			d.drop(exactly, 0, 3, 9)
			d.insert(exactly, 0, 3, proto.CloneOf(d.message(behind, 1, 0).GetUpdate()))
			d.insert(exactly, 0, 4, proto.CloneOf(d.message(behind, 1, 1).GetUpdate()))
			d.insert(exactly, 0, 5, proto.CloneOf(d.message(behind, 1, 2).GetUpdate()))
			for _, i := range []int{4, 5} {
				for _, p := range d.message(exactly, 0, i).GetUpdate().GetPods() {
					p.Content = nil
				}
			}
			d.message(exactly, 0, 5).Cursor, d.message(exactly, 0, 5).Continued = cursor(6), false
		}},
		{"a killed step that took place", func(d damage) {
			killed := &d.Steps[8]
			set := mergetest.Set("file", 8, "a: shop(uid=u2) [held]")
			killed.Set = &set
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := damage{good(t)}
			test.alter(d)
			if err := robustness.Check(d.History); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestStepInDoubt checks that a step during which the daemon was killed counts as done if the next start finds
// its revision.
func TestStepInDoubt(t *testing.T) {
	for _, test := range []struct {
		revision uint64
		image    string
		want     []string
	}{
		{revision: 1, image: "old"},
		{revision: 2, image: "new"},
		{revision: 1, image: "new", want: []string{"Reliable", "Durable"}},
		{revision: 2, image: "old", want: []string{"Reliable", "Durable"}},
	} {
		s := newScript(t, "file")
		s.start(false, "i1", 0)
		s.set("file", "a: web(uid=u1,image=old)", 1)
		s.kill("file", "a: web(uid=u1,image=new)")
		s.start(true, "i1", test.revision)
		stream := s.reads(s.consumer("fresh"), 2, reference(nil), `
			RESTORE file web(uid=u1,image=`+test.image+`) #0
			SYNCED file #0`)
		for _, r := range stream.Received {
			r.Message.Cursor.Revision = test.revision
		}
		if diff := cmp.Diff(test.want, promises(robustness.Breaches(&s.history))); diff != "" {
			t.Errorf("the store is at %d and the pod has image %s: breaches (-want +got):\n%s", test.revision, test.image, diff)
		}
	}
}

// TestLostStore checks that a daemon without its store starts a new instance, and that consumers resume with
// their known pods.
func TestLostStore(t *testing.T) {
	s := newScript(t, "file")
	s.start(false, "i1", 0)
	s.set("file", "a: web(uid=u1)", 1)
	s.start(false, "i1", 0)
	s.set("file", "a: web(uid=u1)", 1)
	for i := 2; i < len(s.history.Steps); i++ {
		s.history.Steps[i].Instance = "i2"
	}
	c := s.consumer("c")
	s.reads(c, 1, reference(nil), "SYNCED file #0\nADD file! @1 web(uid=u1) #1")
	req := reference(cursor(1))
	req.KnownPods = []*podconfigv1.KnownPod{known("file", "web(uid=u1)")}
	for _, r := range s.reads(c, 2, req, "SYNCED file #0\nADD file! @2 #1").Received {
		r.Message.Cursor.InstanceId = "i2"
	}
	if err := robustness.Check(&s.history); err != nil {
		t.Error(err)
	}
}

// TestEmptyCatchUp checks that a pod which was added and removed while a consumer was far behind needs no
// message.
func TestEmptyCatchUp(t *testing.T) {
	s := newScript(t, "file")
	s.start(false, "i1", 0)
	s.set("file", "", 1)
	s.set("file", "a: web(uid=u1)", 2)
	s.set("file", "", 3)
	s.set("file", "a: db(uid=u2)", 4)
	s.reads(s.consumer("slow"), 1, reference(nil), "SYNCED file #0\nADD file! @1 #1\nADD file! @4 db(uid=u2) #4")
	s.history.Revisions = 1
	if err := robustness.Check(&s.history); err != nil {
		t.Errorf("with one revision kept: %v", err)
	}
	s.history.Revisions = 8
	if got := promises(robustness.Breaches(&s.history)); len(got) != 1 || got[0] != "Reliable" {
		t.Errorf("with eight revisions kept the breaches are %v; want Reliable", got)
	}
}

// TestRecorder checks that the records of several goroutines are complete, and that each stream belongs to the
// life of the daemon in which it was started.
func TestRecorder(t *testing.T) {
	r := robustness.NewRecorder(8, time.Second)
	r.Step(robustness.Step{Start: &robustness.Start{}})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			c := r.Consumer("c")
			for range 10 {
				s := c.Subscribe(&podconfigv1.WatchPodUpdatesRequest{})
				s.Receive(&podconfigv1.WatchPodUpdatesResponse{})
				s.Stall(time.Now())
				s.End(nil, true)
			}
		})
	}
	all.Wait()
	r.Step(robustness.Step{Start: &robustness.Start{Kept: true}})
	r.Consumer("late").Subscribe(&podconfigv1.WatchPodUpdatesRequest{})
	h := r.History()
	if h.Revisions != 8 || h.Patience != time.Second || len(h.Steps) != 2 || len(h.Consumers) != 5 {
		t.Fatalf("the history is %+v; want 2 steps and 5 consumers", h)
	}
	for _, c := range h.Consumers[:4] {
		if len(c.Streams) != 10 {
			t.Errorf("a consumer has %d streams; want 10", len(c.Streams))
		}
		for _, s := range c.Streams {
			if s.Life != 1 || len(s.Received) != 1 || len(s.Stalls) != 1 || !s.Drained {
				t.Errorf("a stream is %+v; want one of life 1 with a message and a stall, drained", s)
			}
		}
	}
	if life := h.Consumers[4].Streams[0].Life; life != 2 {
		t.Errorf("a stream that was started after the restart belongs to life %d; want 2", life)
	}
}

// TestHeartbeatCursor checks that a heartbeat's cursor may skip revisions without ops for the consumer, and no
// others.
func TestHeartbeatCursor(t *testing.T) {
	s := newScript(t, "file", "api")
	s.start(false, "i1", 0)
	s.set("file", "", 1)
	s.set("api", "x: web(uid=u1)", 2)
	s.set("file", "a: db(uid=u2)", 3)
	req := reference(nil)
	req.Filter = &podconfigv1.PodFilter{Sources: []string{"file"}}
	stream := s.reads(s.consumer("c"), 1, req, "SYNCED file #0\nADD file! @1 #1\nHEARTBEAT 2 file! #2\nADD file! @3 db(uid=u2) #3")
	if err := robustness.Check(&s.history); err != nil {
		t.Error(err)
	}
	beat := stream.Received[2].Message
	beat.Cursor, beat.GetHeartbeat().Revision = cursor(3), 3
	stream.Received[3].Message.GetUpdate().ObservedTime = timestamppb.New(time.Unix(3, 0))
	if got := promises(robustness.Breaches(&s.history)); !slices.Contains(got, "Reliable") {
		t.Errorf("a heartbeat's cursor skips a pod; the breaches are %v; want Reliable", got)
	}
}
