package relay

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	put     = podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT
	remove  = podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE
	missing = podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING
	setAll  = podconfigv1.ObjectOperation_OBJECT_OPERATION_SET
)

// TestObjects: wanted objects are reported when they are known and when they change; others are kept until they are
// wanted.
func TestObjects(t *testing.T) {
	s, endpoint := scripted(t)
	next := make(chan []*objects)
	s.objects <- func(stream objectStream) error {
		for messages := range next {
			_ = sending(nil, messages...)(stream)
		}
		return nil
	}
	f := follow(t, endpoint, nil)
	req := <-s.wishes
	if req.GetConsumer() != "relay@own-node" || req.GetFilter().GetNodes()[0] != "own-node" || req.GetFormat() != podconfigv1.PodFormat_POD_FORMAT_PROTOBUF {
		t.Errorf("asked for %v", req)
	}
	f.want("c1")
	next <- []*objects{objectOp(0, put, "file/c1=1", "file/s1=x"), objectOp(1, missing, "file/c2"), objectsSynced(1, "file")}
	f.expect("c1=1")
	f.want("c1", "s1", "c2", "never")
	f.expect("s1=x", "c2 is missing")
	next <- []*objects{objectOp(2, put, "file/c1=1", "file/c2=new"), objectOp(3, put, "file/s1=y")}
	f.expect("c2=new", "s1=y")
	next <- []*objects{objectOp(4, missing, "file/s1"), objectOp(5, remove, "file/c1"), objectOp(6, put, "file/c2=newer")}
	f.expect("s1 is missing", "c2=newer")
	f.want("c2")
	next <- []*objects{objectOp(7, put, "file/s1=z", "file/c2=newest")}
	f.expect("c2=newest")
	f.want("s1")
	f.expect("s1=z")
	close(next)
}

// TestObjectsOfTwoSources: the upstream's order of priority decides which source's object counts, among those that
// have it.
func TestObjectsOfTwoSources(t *testing.T) {
	s, endpoint := scripted(t)
	next := make(chan []*objects)
	s.objects <- func(stream objectStream) error {
		for messages := range next {
			_ = sending(nil, messages...)(stream)
		}
		return nil
	}
	f := follow(t, endpoint, nil)
	f.want("c")
	next <- []*objects{objectOp(1, put, "api/c=api"), objectsSynced(1, "file", "api")}
	f.expect("c=api")
	next <- []*objects{objectOp(2, missing, "file/c"), objectOp(3, put, "file/c=file")}
	f.expect("c=file")
	beat := &objects{Event: &podconfigv1.WatchObjectsResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{Sources: ready("api", "file")}}}
	next <- []*objects{objectOp(4, put, "api/c=later"), beat}
	f.expect("c=later")
	next <- []*objects{objectOp(5, remove, "api/c"), objectOp(6, missing, "file/c")}
	f.expect("c=file")
	f.expect("c is missing")
	close(next)
}

// TestObjectsResume: the next stream resumes at the cursor, and sends known objects. A SET removes the objects
// that it lacks of ready sources, whenever it is sent.
func TestObjectsResume(t *testing.T) {
	s, endpoint := scripted(t)
	s.objects <- sending(errBroken, objectOp(1, put, "file/c1=1", "api/c2=2"), objectOp(0, missing, "file/c3"), objectsSynced(2, "file", "api"),
		objectOp(0, put, "file/c1=half"))
	s.objects <- sending(errBroken, objectOp(3, setAll, "file/c4=4"))
	s.objects <- sending(nil, objectOp(3, setAll, "file/c4=4"), objectOp(4, missing, "file/c3"), objectsSynced(4, "file", "-api"),
		objectOp(5, put, "file/c5=5"))
	f := follow(t, endpoint, nil)
	f.want("c1", "c2", "c3", "c4", "c5")
	f.expect("c1=1", "c2=2", "c3 is missing", "c4=4", "c5=5")
	if req := <-s.wishes; req.GetResumeAfter() != nil || len(req.GetKnownObjects()) > 0 {
		t.Errorf("the first stream is asked for with %v", req)
	}
	// Objects that were missing in the SET are undecided when the second stream breaks, so they aren't sent as
	// known.
	for _, want := range []struct{ revision, known uint64 }{{2, 3}, {3, 1}} {
		req := <-s.wishes
		digests := 0
		for _, k := range req.GetKnownObjects() {
			if (k.GetDigest() == "") != (k.GetRef().GetName() == "c3") || k.GetRef().GetNamespace() != "default" {
				t.Errorf("its known objects are %v; want digests of all except c3", k)
			}
			digests++
		}
		if req.GetResumeAfter().GetRevision() != want.revision || uint64(digests) != want.known {
			t.Errorf("the stream is asked for after %v, knowing %d objects; want after %d, knowing %d", req.GetResumeAfter(), digests, want.revision, want.known)
		}
	}
	f.want("c4")
	// c1 is removed, which isn't reported because no pod refers to it. c2 belongs to a source that isn't ready.
	f.want("c1", "c2", "c3", "c4")
	f.expect("c2=2", "c3 is missing")
}

// TestObjectsSetOpen: objects that are missing in a SET, and whose source isn't ready, are removed when it is
// ready.
func TestObjectsSetOpen(t *testing.T) {
	s, endpoint := scripted(t)
	s.objects <- sending(errBroken, objectOp(1, put, "api/c1=1", "file/c2=2"), objectsSynced(2, "file", "api"))
	next := make(chan *objects)
	s.objects <- func(stream objectStream) error {
		for m := range next {
			_ = stream.Send(m)
		}
		return nil
	}
	f := follow(t, endpoint, nil)
	f.want("c1", "c2", "c3", "c4")
	f.expect("c1=1", "c2=2")
	for _, m := range []*objects{objectOp(0, setAll, "file/c2=2"), objectsSynced(3, "file", "-api"), objectOp(4, put, "file/c3=3")} {
		next <- m
	}
	f.expect("c3=3")
	f.want("c4")
	// The object is reported again when it is wanted again.
	f.want("c1", "c4")
	f.expect("c1=1")
	beat := &objects{Event: &podconfigv1.WatchObjectsResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{Sources: ready("file", "api")}}}
	next <- beat
	next <- objectOp(5, put, "file/c4=4")
	f.expect("c4=4")
	f.want("c4")
	f.want("c1")
	// This is handled only after everything else.
	f.want()
	close(next)
}

// TestBadObjects: an object that can't be used stays as it was. An invalid message, a loop, and too many
// objects end the stream, and nothing is accepted.
func TestBadObjects(t *testing.T) {
	bad := func(change func(*podconfigv1.Object)) *objects {
		m := objectOp(2, put, "file/c=2")
		change(m.GetUpdate().GetObjects()[0])
		return m
	}
	loop := objectsSynced(2, "file")
	loop.GetSynced().Path = []*podconfigv1.RelayHop{{Id: "up", Node: "up"}, {Id: "own-id", Node: "own-node"}}
	for _, tc := range []struct {
		name string
		says *objects
		want string
	}{
		{"bytes that aren't an object", bad(func(o *podconfigv1.Object) { o.Content = &podconfigv1.Object_Protobuf{Protobuf: []byte{0xff}} }), "can't be decoded"},
		{"no content", bad(func(o *podconfigv1.Object) { o.Content = nil }), "came in another encoding"},
		{"no digest", bad(func(o *podconfigv1.Object) { o.Digest = "" }), "came without its digest"},
		{"another one", bad(func(o *podconfigv1.Object) { o.Content = wireObject("file/d=1").Content }), "contains another object"},
		{"no name", bad(func(o *podconfigv1.Object) { o.Ref.Name = "" }), "an object with the reference"},
		{"no kind", bad(func(o *podconfigv1.Object) { o.Ref.Kind = 0 }), "an object with the reference"},
		{"no source", bad(func(o *podconfigv1.Object) { o.Ref.Source = "" }), "an object with the reference"},
		{"an operation that isn't known", objectOp(2, 99, "file/c=2"), "unknown operation: 99"},
		{"too many", objectOp(2, put, "file/c=2", "file/c2=", "file/c3=", "file/c4=", "file/c5=", "file/c6="), "it exceeds the limits: 6 objects"},
		{"too large", objectOp(2, put, "file/c="+strings.Repeat("x", 64<<10)), "it exceeds the limits"},
		{"a loop", loop, "loop: its pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, endpoint := scripted(t)
			s.objects <- sending(errBroken, objectOp(0, put, "file/c=1"), objectsSynced(1, "file"), tc.says)
			s.objects <- sending(nil, objectsSynced(2, "file"), objectOp(3, put, "file/c=3"))
			f := follow(t, endpoint, nil)
			f.want("c")
			f.expect("c=1")
			f.expect("c=3")
			if f.log.Count(tc.want) != 1 {
				t.Errorf("the log is\n%s\nwant %q once", f.log, tc.want)
			}
		})
	}
}

// TestNoObjects: an upstream that doesn't serve objects is tried again each minute, which is logged once.
func TestNoObjects(t *testing.T) {
	s, endpoint := scripted(t)
	c := &askedClock{clocktesting.NewFakeClock(time.Unix(1000, 0)), make(chan time.Duration, 1)}
	f := follow(t, endpoint, c)
	for _, code := range []codes.Code{codes.Unimplemented, codes.Unimplemented, codes.PermissionDenied} {
		s.objects <- func(objectStream) error { return status.Error(code, "no objects") }
		<-s.wishes
		if pause := <-c.asked; pause != time.Minute {
			t.Errorf("after %s it is asked again in %v; want 1m", code, pause)
		}
		c.Step(time.Minute)
	}
	s.objects <- sending(nil, objectOp(0, put, "file/c=1"), objectsSynced(1, "file"))
	f.want("c")
	f.expect("c=1")
	// The second value is received only after the first one, which waits until the stream's messages are
	// handled.
	f.want()
	f.want()
	if f.log.Count("level=WARN") != 2 || f.log.Count("the upstream sends objects again") != 1 {
		t.Errorf("the log is\n%s\nwant a warning for each of two reasons, and one line for the recovery", f.log)
	}
}

// askedClock records the requested pauses.
type askedClock struct {
	*clocktesting.FakeClock
	asked chan time.Duration
}

func (c *askedClock) NewTimer(d time.Duration) clock.Timer {
	defer func() { c.asked <- d }()
	return c.FakeClock.NewTimer(d)
}
