package service_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG8Isolated checks G8, Isolated: of three consumers two don't read, one that is far behind and one that
// was in step. All merges continue, the third consumer receives every revision, and only the revisions of the
// history and one batch for each consumer stay in memory. When the slow ones read again, they converge.
func TestG8Isolated(t *testing.T) {
	const ring, batch, sets = 128, 32, 400
	n := start(t, options{revisions: ring})
	full := func(after *podconfigv1.Cursor) *podconfigv1.WatchPodUpdatesRequest {
		return &podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, ResumeAfter: after}
	}
	slow, quick := n.watch(full(nil)), n.watch(full(nil))
	at := slow.want("synced").cursor
	quick.want("synced")
	var behind *stream
	var versions []weak.Pointer[revision.Pod]
	for i := range sets {
		// This is far more than the flow control windows of a connection.
		n.set("file", fmt.Sprintf("a: web(image=%d,pad=40)", i))
		versions = append(versions, weak.Make(n.hub.History().State().Pods[0]))
		if u := quick.unit(); u.cursor.GetRevision() != uint64(i+1) {
			t.Fatalf("the quick consumer gets revision %d; want %d, right after its merge", u.cursor.GetRevision(), i+1)
		}
		if i+1 == ring {
			// Once it has the first missed message, the stream's buffers are full.
			behind = n.watch(full(at))
			behind.want("ADD file: web")
		}
	}
	alive := 0
	runtime.GC()
	for _, v := range versions {
		if v.Value() != nil {
			alive++
		}
	}
	// A few more: the served version, the one just sent to the fast consumer, and the one being sent to the
	// consumer in step.
	if limit := ring + 2*batch + 4; alive > limit {
		t.Errorf("%d of %d revisions are in memory while two consumers don't read; want %d at most", alive, sets, limit)
	}
	for name, consumer := range map[string]*stream{"that was in step": slow, "that was behind": behind} {
		var last unit
		for last.cursor.GetRevision() < sets {
			last = consumer.unit()
		}
		if got, want := len(last.pods()), 1; got != want {
			t.Fatalf("the last unit of the slow consumer %s has %d pods; want %d", name, got, want)
		}
		if got, want := last.pods()[0].GetSpecDigest(), n.hub.History().State().Pods[0].SpecDigest; got != want {
			t.Errorf("the slow consumer %s ends with version %s of the pod; want %s", name, got, want)
		}
	}
}

// TestG8DeadConsumer: a consumer whose stream ended leaves nothing behind that affects a merge or another
// consumer. goleak checks that its goroutine has ended.
func TestG8DeadConsumer(t *testing.T) {
	n := start(t, options{})
	for i := range 20 {
		s := n.watch(reference(nil))
		s.cancel()
		n.set("file", fmt.Sprintf("a: web(image=%d)", i))
	}
	s := n.watch(reference(nil))
	s.want("ADD file: web")
	if u := s.want("synced"); u.cursor.GetRevision() != 20 {
		t.Errorf("synced at revision %d; want 20", u.cursor.GetRevision())
	}
}
