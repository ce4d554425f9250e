package client_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestHeartbeatMovesTheCursor: revisions without a change for the consumer produce no op; its cursor moves all the
// same, and the next stream resumes from there.
func TestHeartbeatMovesTheCursor(t *testing.T) {
	s := newScript(func(s serverStream) error {
		send(s, synced(1))
		send(s, heartbeat(0, true)) // nothing new: no event
		send(s, heartbeat(7, true))
		return broken
	})
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("synced")
	if e := w.want(); e.Cursor.GetRevision() != 7 || e.Ops != nil || e.Sources != nil {
		t.Errorf("the event is %+v; want nothing but the cursor of revision 7", e)
	}
	wantRequest(t, <-s.requests, 0, "")
	wantRequest(t, <-s.requests, 7, "")
}

// TestHeartbeatHasReadiness checks the consumer's part of G9: a pod that a SET lacked while its source wasn't ready
// is removed when a heartbeat reports the source as ready.
func TestHeartbeatHasReadiness(t *testing.T) {
	restore := update(1, client.Restore, "one", "two")
	restore.GetUpdate().SourceReady = false
	unready := synced(1)
	unready.GetSynced().Sources[0].Ready = false
	snapshot := update(2, podconfigv1.PodOperation_POD_OPERATION_SET, "two")
	snapshot.GetUpdate().SourceReady = false
	s := newScript(func(s serverStream) error {
		for _, m := range []*podconfigv1.WatchPodUpdatesResponse{restore, unready, snapshot, heartbeat(0, false), heartbeat(0, true)} {
			send(s, m)
		}
		return broken
	})
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("RESTORE file: one two")
	w.want("synced")
	if e := w.want(); e.Cursor.GetRevision() != 2 {
		t.Errorf("the SET that changes nothing yet moves to revision %d; want 2", e.Cursor.GetRevision())
	}
	e := w.want("REMOVE file: one")
	if !e.Ops[0].SourceReady || e.Cursor.GetRevision() != 2 || len(e.Sources) != 1 || e.Sources[0] != (client.Source{Name: "file", Ready: true}) {
		t.Errorf("the removal is %+v; want it at revision 2, with file ready", e)
	}
	<-s.requests
	wantRequest(t, <-s.requests, 2, "two")
}

// TestRequestOfWatch: every request has the consumer, filter and heartbeat interval.
func TestRequestOfWatch(t *testing.T) {
	s := newScript(func(s serverStream) error {
		send(s, synced(1))
		return broken
	})
	p := testPlace(t)
	up(t, p, s)
	filter := &podconfigv1.PodFilter{Sources: []string{"file"}, LabelSelector: "app=web"}
	w := watch(t, p, client.Config{Consumer: "c"}, client.WatchOptions{Filter: filter})
	w.want("synced")
	first, second := <-s.requests, <-s.requests
	if first.GetConsumer() != "c" || first.GetHeartbeatInterval().AsDuration().Seconds() != 10 ||
		first.GetFormat() != podconfigv1.PodFormat_POD_FORMAT_PROTOBUF {
		t.Errorf("the request is %v; want consumer c, 10 s, protobuf", first)
	}
	if diff := cmp.Diff(filter, first.GetFilter(), protocmp.Transform()); diff != "" {
		t.Errorf("the filter (-want +got):\n%s", diff)
	}
	want := proto.CloneOf(first)
	want.ResumeAfter = cursor(1)
	if diff := cmp.Diff(want, second, protocmp.Transform()); diff != "" {
		t.Errorf("the second request (-want +got):\n%s", diff)
	}
}

// TestTraceContext: the trace of an op comes with the Change.
func TestTraceContext(t *testing.T) {
	traced := update(1, client.Add, "one")
	traced.GetUpdate().TraceContext = &podconfigv1.TraceContext{Traceparent: "00-aa-bb-01", Tracestate: "vendor=1"}
	s := newScript(func(s serverStream) error {
		send(s, traced)
		send(s, update(2, client.Update, "one"))
		return broken
	})
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	if c := w.want("ADD file: one").Ops[0]; c.TraceParent != "00-aa-bb-01" || c.TraceState != "vendor=1" {
		t.Errorf("the Change has trace %q and %q", c.TraceParent, c.TraceState)
	}
	if c := w.want("UPDATE file: one").Ops[0]; c.TraceParent != "" || c.TraceState != "" {
		t.Errorf("a Change that isn't traced has trace %q and %q", c.TraceParent, c.TraceState)
	}
}

// TestUnknownFormat: a pod in another format than the requested one is an error; nothing of its revision is applied.
func TestUnknownFormat(t *testing.T) {
	strange := update(2, client.Add, "two")
	strange.GetUpdate().GetPods()[0].Content = nil
	s := newScript(func(s serverStream) error {
		send(s, update(1, client.Add, "one"))
		send(s, strange)
		return broken
	})
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("ADD file: one")
	<-s.requests
	again := <-s.requests
	wantRequest(t, again, 1, "one")
	if again.GetMode() != podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT {
		t.Errorf("the second stream is asked for in mode %v; want SNAPSHOT", again.GetMode())
	}
}
