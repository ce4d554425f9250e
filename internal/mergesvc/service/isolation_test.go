package service_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG8Isolated checks G8, Isolated: of two consumers one never reads. All merges go through, the other gets every revision,
// and of the many revisions only those that the history keeps and one batch stay in memory. When the slow one reads in the
// end, it converges.
func TestG8Isolated(t *testing.T) {
	const ring, batch, sets = 64, 32, 400
	n := start(t, options{revisions: ring})
	full := &podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF}
	slow, quick := n.watch(full), n.watch(full)
	slow.want("synced")
	quick.want("synced")
	var versions []weak.Pointer[revision.Pod]
	for i := range sets {
		// Far more than the flow control windows of a connection take.
		n.set("file", fmt.Sprintf("a: web(image=%d,pad=40)", i))
		versions = append(versions, weak.Make(n.hub.History().State().Pods[0]))
		if u := quick.unit(); u.cursor.GetRevision() != uint64(i+1) {
			t.Fatalf("the quick consumer gets revision %d; want %d, right after its merge", u.cursor.GetRevision(), i+1)
		}
	}
	alive := 0
	runtime.GC()
	for _, v := range versions {
		if v.Value() != nil {
			alive++
		}
	}
	// Two more: what is served now, and what the quick one has just been sent.
	if limit := ring + batch + 2; alive > limit {
		t.Errorf("%d of %d revisions are in memory while a consumer doesn't read; want %d at most", alive, sets, limit)
	}
	var last unit
	for last.cursor.GetRevision() < sets {
		last = slow.unit()
	}
	if got, want := len(last.pods()), 1; got != want {
		t.Fatalf("the slow consumer's last unit has %d pods; want %d", got, want)
	}
	if got, want := last.pods()[0].GetSpecDigest(), n.hub.History().State().Pods[0].SpecDigest; got != want {
		t.Errorf("the slow consumer ends with version %s of the pod; want %s", got, want)
	}
}

// TestG8DeadConsumer: a consumer whose stream ended leaves nothing behind that a merge or another one would notice; goleak
// checks that its goroutine is gone.
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
