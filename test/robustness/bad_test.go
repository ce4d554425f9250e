package robustness_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// damage is a good history that a test changes.
type damage struct{ *robustness.History }

// stream returns a consumer's stream, counted from 0.
func (d damage) stream(consumer, stream int) *robustness.Stream {
	return d.Consumers[consumer].Streams[stream]
}

// message returns one of the stream's messages, counted from 0.
func (d damage) message(consumer, stream, message int) *podconfigv1.WatchPodUpdatesResponse {
	return d.stream(consumer, stream).Received[message].Message
}

// drop removes messages from a stream.
func (d damage) drop(consumer, stream, from, to int) {
	s := d.stream(consumer, stream)
	s.Received = slices.Delete(s.Received, from, to)
}

// repeat doubles a message.
func (d damage) repeat(consumer, stream, message int) {
	s := d.stream(consumer, stream)
	s.Received = slices.Insert(s.Received, message, s.Received[message])
}

// swap exchanges two messages. Each keeps its cursor.
func (d damage) swap(consumer, stream, a, b int) {
	r := d.stream(consumer, stream).Received
	r[a], r[b] = r[b], r[a]
}

// bad are changes to the good history, each with the promise that it breaks and a part of the expected error.
var bad = []struct {
	name, promise, says string
	spoil               func(damage)
}{
	{"two revisions change places", "Ordered", "goes back", func(d damage) { d.swap(exactly, 0, 2, 3) }},
	{"two revisions change places and keep their cursors", "Ordered", "observed", func(d damage) {
		d.swap(exactly, 0, 2, 3)
		a, b := d.message(exactly, 0, 2), d.message(exactly, 0, 3)
		a.Cursor, b.Cursor = b.Cursor, a.Cursor
	}},
	{"ADD before REMOVE", "Ordered", "comes after", func(d damage) {
		d.swap(exactly, 0, 6, 7)
		a, b := d.message(exactly, 0, 6), d.message(exactly, 0, 7)
		a.Continued, a.Cursor, b.Continued, b.Cursor = true, nil, false, cursor(5)
	}},
	{"another revision for another consumer", "Ordered", "is not what consumer", func(d damage) {
		d.message(foreign, 0, 3).GetUpdate().Source = "file"
		d.message(foreign, 0, 3).GetUpdate().SourceReady = true
	}},
	{"an unknown op", "Ordered", "isn't one of", func(d damage) { d.message(exactly, 0, 2).GetUpdate().Op = 77 }},

	{"a revision is left out", "Reliable", "revision 3 is missing", func(d damage) { d.drop(exactly, 0, 3, 4) }},
	{"a heartbeat passes over a revision", "Reliable", "revision 4 is missing", func(d damage) { d.drop(exactly, 0, 4, 5) }},
	{"the last revision never comes", "Reliable", "never came", func(d damage) { d.drop(exactly, 1, 3, 4) }},
	{"a fresh consumer doesn't receive a pod", "Reliable", "lacks j1", func(d damage) {
		d.drop(behind, 0, 1, 2)
		d.message(behind, 0, 0).Continued, d.message(behind, 0, 0).Cursor = false, cursor(3)
	}},
	{"a pod in another version", "Reliable", "holds j1", func(d damage) {
		d.message(exactly, 0, 3).GetUpdate().GetPods()[0].SpecDigest = "sha256:0"
	}},
	{"UPDATE where the pod is being deleted", "Reliable", "want DELETE", func(d damage) {
		d.message(exactly, 0, 8).GetUpdate().Op = podconfigv1.PodOperation_POD_OPERATION_UPDATE
	}},
	{"RECONCILE where the spec changed", "Reliable", "want UPDATE", func(d damage) {
		d.message(exactly, 0, 3).GetUpdate().Op = podconfigv1.PodOperation_POD_OPERATION_RECONCILE
	}},
	{"ADD of a pod that the consumer holds", "Reliable", "holds it already", func(d damage) {
		d.message(exactly, 0, 3).GetUpdate().Op = podconfigv1.PodOperation_POD_OPERATION_ADD
	}},
	{"a change makes no revision", "Reliable", "want a revision", func(d damage) { d.Steps[4].Revision = 3 }},
	{"content of another version", "Reliable", "content has spec", func(d damage) {
		pods := d.message(behind, 0, 1).GetUpdate().GetPods()
		pods[0].Content = d.message(behind, 1, 2).GetUpdate().GetPods()[0].GetContent()
	}},
	{"no content", "Reliable", "want it for", func(d damage) { d.message(behind, 0, 0).GetUpdate().GetPods()[0].Content = nil }},

	{"a revision that the cursor covers", "Unique", "cursor 6 covers", func(d damage) {
		s := d.stream(exactly, 1)
		again := d.stream(exactly, 0).Received[8]
		s.Received = append([]robustness.Received{again}, s.Received...)
		s.Life = 1
		s.Received = s.Received[:1]
		s.Drained = false
	}},
	{"a version that the cursor covers", "Unique", "delivers a version", func(d damage) {
		s := d.stream(behind, 1)
		again := proto.CloneOf(s.Received[2].Message)
		again.Cursor, again.Continued = nil, true
		again.GetUpdate().Op = podconfigv1.PodOperation_POD_OPERATION_UPDATE
		s.Request.ResumeAfter = cursor(6)
		s.Received = []robustness.Received{{Message: again}, {Message: proto.CloneOf(s.Received[3].Message)}}
	}},

	{"the cursor comes before the last message", "Atomic", "though more", func(d damage) {
		d.message(exactly, 0, 6).Cursor = cursor(5)
	}},
	{"the cursor comes twice", "Atomic", "was received before", func(d damage) {
		d.message(knowing, 0, 3).Cursor, d.message(knowing, 0, 3).Continued = cursor(8), false
	}},
	{"the last message has no cursor", "Atomic", "has no cursor", func(d damage) { d.message(exactly, 0, 8).Cursor = nil }},
	{"a part of a revision with its cursor", "Atomic", "only a part of its revision", func(d damage) { d.drop(exactly, 0, 6, 7) }},
	{"a heartbeat within a revision", "Atomic", "in the middle", func(d damage) { d.swap(exactly, 0, 5, 6) }},

	{"a revision for equal input", "Minimal", "want silence", func(d damage) { d.Steps[6-1].Revision = 5 }},
	{"an UPDATE that changes nothing", "Minimal", "as before", func(d damage) {
		m := proto.CloneOf(d.message(exactly, 0, 3))
		m.Cursor, m.Continued = nil, true
		s := d.stream(exactly, 0)
		s.Received = slices.Insert(s.Received, 3, robustness.Received{Message: proto.CloneOf(m)})
	}},
	{"a REMOVE of a pod that the consumer doesn't have", "Minimal", "doesn't hold it", func(d damage) {
		d.message(restored, 0, 0).GetUpdate().Op = podconfigv1.PodOperation_POD_OPERATION_REMOVE
	}},
	{"the empty ADD comes again", "Minimal", "was ready before", func(d damage) {
		u := proto.CloneOf(d.message(exactly, 1, 1).GetUpdate())
		u.ObservedTime = d.message(exactly, 1, 2).GetUpdate().GetObservedTime()
		d.insert(exactly, 1, 2, u)
	}},
	{"an op without pods", "Minimal", "has no pods", func(d damage) { d.message(exactly, 0, 3).GetUpdate().Pods = nil }},
	{"a SET for a status", "Minimal", "nothing that a consumer in this mode", func(d damage) {
		s := d.stream(snapshots, 0)
		m := proto.CloneOf(s.Received[3].Message)
		m.Cursor = cursor(4)
		m.GetUpdate().Source, m.GetUpdate().ObservedTime = "file", timestamppb.New(time.Unix(4, 0))
		s.Received = slices.Insert(s.Received, 5, robustness.Received{Message: m})
	}},

	{"another instance after the kill", "Durable", "instance is another", func(d damage) { d.start().Instance = "i2" }},
	{"an older revision after the kill", "Durable", "has been sent", func(d damage) { d.start().Revision = 5 }},
	{"a cursor of an unknown instance", "Durable", "publishes under", func(d damage) {
		d.message(restored, 0, 1).Cursor.InstanceId = "i2"
	}},
	{"a restored pod is missing", "Durable", "lacks u2", func(d damage) { d.drop(restored, 0, 0, 1) }},
	{"a new first-seen time", "Durable", "first seen", func(d damage) {
		pods := d.message(snapshots, 0, 3).GetUpdate().GetPods()
		annotations := pods[1].GetJson().GetFields()["metadata"].GetStructValue().GetFields()["annotations"].GetStructValue()
		annotations.Fields["kubernetes.io/config.seen"].Kind = proto.CloneOf(annotations.Fields["kubernetes.io/config.source"]).GetKind()
	}},
	{"the consumer is set back", "Durable", "having been at", func(d damage) {
		d.stream(exactly, 1).Request.ResumeAfter = nil
		d.message(exactly, 1, 0).Cursor = cursor(3)
	}},

	{"a removal is missing in a catch-up", "Resumable", "shouldn't any more", func(d damage) { d.drop(behind, 1, 0, 1) }},
	{"the REMOVE of a known pod is missing", "Reliable", "shouldn't any more", func(d damage) { d.drop(knowing, 0, 1, 2) }},
	{"a SET lacks a pod", "Resumable", "lacks u2", func(d damage) {
		u := d.message(foreign, 0, 0).GetUpdate()
		u.Pods = u.GetPods()[1:]
	}},
	{"an error for a cursor", "Resumable", "ended it", func(d damage) {
		d.stream(foreign, 0).Err = status.Error(codes.OutOfRange, "the cursor is from the future")
	}},
	{"synced never comes", "Resumable", "never synced", func(d damage) { d.drop(behind, 1, 3, 4) }},
	{"synced comes twice", "Resumable", "a second time", func(d damage) { d.repeat(exactly, 0, 0) }},
	{"another view", "Resumable", "view is w", func(d damage) { d.message(exactly, 0, 2).Cursor.View = "w" }},

	{"a merge never ends", "Isolated", "never ended; meanwhile behind", func(d damage) {
		s := &d.Steps[3]
		s.Ended = time.Time{}
		d.stream(behind, 0).Stalls = []robustness.Stall{{From: s.Begun, To: s.Begun.Add(time.Minute)}}
	}},
	{"a merge takes long", "Isolated", "took", func(d damage) { d.Steps[3].Ended = d.Steps[3].Begun.Add(time.Minute) }},
	{"a message is late", "Isolated", "after it was published", func(d damage) {
		d.stream(exactly, 0).Received[8].At = d.Steps[7].Ended.Add(time.Minute)
	}},

	{"a source is ready too early", "Ready", "which isn't ready", func(d damage) {
		// The origin is held, so its pods are unknown.
		d.Steps[1].Set.Origins[0].Held = true
		d.drop(exactly, 0, 1, len(d.stream(exactly, 0).Received))
		d.insert(exactly, 0, 1, &podconfigv1.PodUpdate{
			Op: podconfigv1.PodOperation_POD_OPERATION_ADD, Source: "file", ObservedTime: timestamppb.New(time.Unix(1, 0)),
		})
		d.message(exactly, 0, 1).Cursor = cursor(1)
	}},
	{"synced with a wrong readiness", "Ready", "said to be", func(d damage) {
		d.message(behind, 1, 3).GetSynced().GetSources()[0].Ready = false
	}},
	{"synced lacks a source", "Ready", "is missing", func(d damage) {
		s := d.message(behind, 1, 3).GetSynced()
		s.Sources = s.GetSources()[:1]
	}},
	{"sources in another order", "Ready", "not in its place", func(d damage) {
		slices.Reverse(d.message(behind, 1, 3).GetSynced().GetSources())
	}},
	{"a heartbeat with a wrong readiness", "Ready", "said to be", func(d damage) {
		d.message(exactly, 0, 5).GetHeartbeat().GetSources()[1].Ready = false
	}},
	{"an op with a wrong readiness", "Ready", "source_ready", func(d damage) {
		d.message(exactly, 0, 3).GetUpdate().SourceReady = false
	}},
	{"no op reports that a source is ready", "Ready", "no op reports it", func(d damage) {
		u := d.message(exactly, 0, 2).GetUpdate()
		u.Op = podconfigv1.PodOperation_POD_OPERATION_RECONCILE
	}},
	{"a source that isn't ready removes", "Ready", "isn't ready, and the daemon", func(d damage) {
		u := proto.CloneOf(d.message(knowing, 0, 1).GetUpdate())
		u.SourceReady, u.ObservedTime = false, nil
		d.insert(knowing, 0, 0, u)
		d.message(knowing, 0, 0).Cursor, d.message(knowing, 0, 0).Continued = cursor(6), false
	}},
	{"a restored pod that isn't stale", "Ready", "isn't marked stale", func(d damage) {
		u := d.message(restored, 0, 0).GetUpdate()
		u.GetPods()[0].Stale, u.Op = false, podconfigv1.PodOperation_POD_OPERATION_ADD
	}},
	{"ADD of a stale pod", "Ready", "want RESTORE", func(d damage) {
		d.message(leaving, 0, 0).GetUpdate().Op = podconfigv1.PodOperation_POD_OPERATION_ADD
	}},
	{"a pod remains stale", "Ready", "its source has delivered a set", func(d damage) {
		d.message(exactly, 0, 7).GetUpdate().GetPods()[0].Stale = true
	}},

	{"a pod that leaves the filter isn't removed", "Filtered", "shouldn't any more", func(d damage) { d.drop(filtering, 0, 3, 4) }},
	{"a pod that leaves the filter is updated", "Filtered", "doesn't match", func(d damage) {
		d.message(filtering, 0, 3).Event = proto.CloneOf(d.message(exactly, 0, 3)).GetEvent()
	}},
	{"a pod that enters the filter isn't added", "Filtered", "lacks j1", func(d damage) {
		d.drop(filtering, 0, 2, 3)
		d.message(filtering, 0, 2).Cursor = cursor(2)
		d.stream(filtering, 0).Received = d.stream(filtering, 0).Received[:3]
		d.message(filtering, 0, 2).Event = proto.CloneOf(d.message(exactly, 0, 5)).GetEvent()
		d.message(filtering, 0, 2).GetHeartbeat().Revision = 2
	}},
	{"a source outside the filter", "Filtered", "isn't in the filter", func(d damage) {
		u := proto.CloneOf(d.message(exactly, 1, 1).GetUpdate())
		u.ObservedTime = d.message(exactly, 1, 2).GetUpdate().GetObservedTime()
		d.insert(leaving, 0, 2, u)
	}},
}

// start returns the second start.
func (d damage) start() *robustness.Step {
	i := slices.IndexFunc(d.Steps, func(s robustness.Step) bool { return s.Start != nil && s.Start.Kept })
	return &d.Steps[i]
}

// insert adds an op before a message, in the same unit.
func (d damage) insert(consumer, stream, message int, u *podconfigv1.PodUpdate) {
	s := d.stream(consumer, stream)
	m := &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: u}, Continued: true}
	s.Received = slices.Insert(s.Received, message, robustness.Received{Message: m})
}

// TestBadHistories checks that the checker of each promise finds each way to break it, and that the error names
// the consumer and the fault.
func TestBadHistories(t *testing.T) {
	for _, test := range bad {
		t.Run(test.name, func(t *testing.T) {
			d := damage{good(t)}
			test.spoil(d)
			breaches := robustness.Breaches(d.History)
			i := slices.IndexFunc(breaches, func(b *robustness.BreachError) bool { return b.Promise == test.promise })
			if i < 0 {
				t.Fatalf("found %v; want %s", promises(breaches), test.promise)
			}
			if text := breaches[i].Error(); !strings.Contains(text, test.says) {
				t.Errorf("%s; want it to contain %q", text, test.says)
			}
		})
	}
}
