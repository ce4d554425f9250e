package stream

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// many are held pods of file with names of that many bytes.
func many(n, name int) []*podconfigv1.KnownPod {
	out := make([]*podconfigv1.KnownPod, n)
	for i := range out {
		out[i] = &podconfigv1.KnownPod{Uid: strconv.Itoa(i), Source: "file", SpecDigest: "s", StatusDigest: "t", Name: strings.Repeat("n", name)}
	}
	return out
}

// TestBeginFits: no request exceeds podconfigd's bounds, and a request without known pods never claims that
// the consumer holds nothing.
func TestBeginFits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		known []*podconfigv1.KnownPod
		named int
	}{
		{"as many as podconfigd takes", many(20_000, 1), 20_000},
		{"one more", many(20_001, 1), 0},
		{"few enough, and small enough", many(12_000, 230), 12_000},
		{"few enough, but too large", many(14_000, 230), 0},
	} {
		for _, cursor := range []*podconfigv1.Cursor{nil, at(7)} {
			request := NewHeld(cursor, tc.known).Begin(&podconfigv1.WatchPodUpdatesRequest{Consumer: "c"})
			if n := len(request.GetKnownPods()); n != tc.named || request.GetConsumer() != "c" {
				t.Errorf("%s, after %v: consumer %q names %d pods; want c, %d", tc.name, cursor, request.GetConsumer(), n, tc.named)
			}
			if size := proto.Size(request); size > 4<<20 {
				t.Errorf("%s: the request has %d bytes; want at most the 4 MiB that gRPC takes", tc.name, size)
			}
			want := cursor
			if tc.named == 0 {
				want = &podconfigv1.Cursor{}
			}
			if got := request.ResumeAfter; (got == nil) != (want == nil) || !proto.Equal(got, want) {
				t.Errorf("%s, after %v: it resumes after %v; want %v", tc.name, cursor, got, want)
			}
		}
	}
}

// TestBeginResumesWhereAllIsSettled: a consumer that can't list its pods resumes after its cursor only if the cursor
// alone describes them; otherwise it requests a SET, and finds the removed pods by that.
func TestBeginResumesWhereAllIsSettled(t *testing.T) {
	moves := func(r *Revision) *Revision {
		r.Cursor = at(9)
		return r
	}
	inStep := moves(synced("file", "api"))
	for _, tc := range []struct {
		name      string
		revisions []*Revision
		settled   bool
	}{
		{"nothing came", nil, false},
		{"synced, all ready", []*Revision{inStep}, true},
		{"synced, and a try that failed", []*Revision{inStep, newStream}, true},
		{"and ops after it", []*Revision{inStep, moves(ops(update(opUpdate, "file", true, "1")))}, true},
		{"synced, one not ready", []*Revision{moves(synced("file", "-api"))}, false},
		{"which became ready", []*Revision{moves(synced("file", "-api")), moves(ops(update(opAdd, "api", true)))}, true},
		{"which a heartbeat says", []*Revision{moves(synced("file", "-api")), moves(heartbeat("file", "api"))}, true},
		{"broken amid a catch-up", []*Revision{inStep, newStream, moves(ops(update(opUpdate, "file", true, "1")))}, false},
		{"before synced a heartbeat says nothing of what is held", []*Revision{moves(heartbeat("file", "api"))}, false},
	} {
		h := NewHeld(at(7), many(20_001, 1))
		for _, r := range tc.revisions {
			if r == newStream {
				h.Begin(nil)
				continue
			}
			h.Apply(h.Interpret(r))
		}
		request := h.Begin(nil)
		want := &podconfigv1.WatchPodUpdatesRequest{ResumeAfter: &podconfigv1.Cursor{}}
		if tc.settled {
			want.ResumeAfter = at(9)
		}
		if diff := cmp.Diff(want, request, protocmp.Transform()); diff != "" {
			t.Errorf("%s: the request (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestResume: the stored state has all pods, however many; Resume doesn't start a stream.
func TestResume(t *testing.T) {
	known := many(20_001, 1)
	h := NewHeld(at(7), known)
	h.Apply(h.Interpret(heartbeat("file", "-api")))
	kept := h.Resume()
	if len(kept.GetKnownPods()) != len(known) || !proto.Equal(kept.GetResumeAfter(), at(7)) {
		t.Errorf("%d pods are kept, after %v; want all %d, after revision 7", len(kept.GetKnownPods()), kept.GetResumeAfter(), len(known))
	}
	if ready := h.Ready(); len(ready) != 2 {
		t.Errorf("what the stream told of its sources is %v after a look", ready)
	}
	h.Begin(nil)
	if ready := h.Ready(); len(ready) != 0 {
		t.Errorf("a new stream begins with readiness %v; want none", ready)
	}
}
