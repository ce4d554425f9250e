package service_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG1Ordered checks G1, Ordered: two sources publish at once, and every consumer in exact history receives
// the same revisions in the same order, with rising numbers.
func TestG1Ordered(t *testing.T) {
	n := start(t, options{})
	const consumers, sets = 4, 50
	var streams []*stream
	for range consumers {
		s := n.watch(reference(nil))
		s.want("synced")
		streams = append(streams, s)
	}
	var writers sync.WaitGroup
	for _, source := range []string{"file", "api"} {
		writers.Go(func() {
			for i := range sets {
				n.hub.Apply(mergetest.Set(source, int64(i), fmt.Sprintf("%s.x: %s-%d()", source, source, i)))
			}
		})
	}
	writers.Wait()
	var first []string
	for c, s := range streams {
		var seen []string
		for last := uint64(0); last < 2*sets; {
			u := s.unit()
			if got := u.cursor.GetRevision(); got != last+1 {
				t.Fatalf("consumer %d: revision %d comes after %d; want %d (G1, G2)", c, got, last, last+1)
			}
			last++
			seen = append(seen, u.String())
		}
		if c == 0 {
			first = seen
		} else if diff := cmp.Diff(first, seen); diff != "" {
			t.Errorf("consumer %d sees another history than consumer 0 (-0 +%d):\n%s", c, c, diff)
		}
	}
}

// TestG2ReliableG3Unique: from each cursor of a history, a stream receives exactly the units after it, in full,
// and nothing that the cursor covers.
func TestG2ReliableG3Unique(t *testing.T) {
	n := start(t, options{})
	live := n.watch(reference(nil))
	units := []unit{live.want("synced")}
	for _, text := range []string{
		"a: web()", "a: web(image=2) db()", "a: web(image=2,phase=Running)", "a: web(image=2,deleting=3)", "a:", "a: web() new()",
	} {
		n.set("file", text)
		units = append(units, live.unit())
	}
	n.set("api", "")
	units = append(units, live.want("ADD api:"))
	for i, from := range units {
		resumed := n.watch(reference(from.cursor))
		for _, want := range units[i+1:] {
			got := resumed.unit()
			if diff := cmp.Diff(want.messages, got.messages, protocmp.Transform()); diff != "" {
				t.Fatalf("resumed after revision %d: the unit is not the one that was sent live (-live +resumed):\n%s",
					from.cursor.GetRevision(), diff)
			}
		}
		if got, want := resumed.want("synced").cursor, units[len(units)-1].cursor; !proto.Equal(got, want) {
			t.Errorf("resumed after revision %d: synced at %v; want %v", from.cursor.GetRevision(), got, want)
		}
		resumed.cancel()
	}
}

// TestG4Atomic checks G4, Atomic: a state of several MiB, and a revision of that size, are sent in messages of
// about 1 MiB, of which only the last has a cursor (stream.unit checks it). They fit a client's default limit
// of 4 MiB.
func TestG4Atomic(t *testing.T) {
	n := start(t, options{})
	live := n.watch(&podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	live.want("synced")
	var text strings.Builder
	const pods = 100
	for i := range pods {
		fmt.Fprintf(&text, "%03d: pod-%03d(pad=50)\n", i, i)
	}
	n.set("file", text.String())
	check := func(what string, u unit) {
		t.Helper()
		if len(u.messages) < 5 {
			t.Errorf("%s: %d messages for 5 MB; want 5 at least", what, len(u.messages))
		}
		for i, m := range u.messages {
			if size := proto.Size(m); size > 1<<20+4<<10 {
				t.Errorf("%s: message %d has %d bytes; want about 1 MiB at most", what, i, size)
			}
			if m.GetUpdate().GetOp() != podconfigv1.PodOperation_POD_OPERATION_ADD || m.GetUpdate().GetSource() != "file" {
				t.Errorf("%s: message %d is %v of %s; want each fragment to say ADD of file", what, i,
					m.GetUpdate().GetOp(), m.GetUpdate().GetSource())
			}
		}
		for i, p := range u.pods() {
			if want := fmt.Sprintf("pod-%03d", i); p.GetRef().GetName() != want {
				t.Fatalf("%s: pod %d is %s; want %s", what, i, p.GetRef().GetName(), want)
			}
		}
		if len(u.pods()) != pods {
			t.Errorf("%s: %d pods; want %d", what, len(u.pods()), pods)
		}
	}
	check("the live revision", live.unit())
	check("the initial state", n.watch(&podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF}).unit())

	// One pod of the largest size has a separate message, in every format.
	n.set("file", "a: small-1() large(pad=1400) small-2()")
	for _, format := range []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_JSON, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF} {
		if got, want := n.watch(&podconfigv1.WatchPodUpdatesRequest{Format: format}).unit().String(),
			"ADD file: large\nADD file: small-1 small-2"; got != want {
			t.Errorf("in %v the initial state comes as\n%s\nwant\n%s", format, got, want)
		}
	}
}

// TestG4SeveralOps checks G4 for a revision of several ops: they are one unit.
func TestG4SeveralOps(t *testing.T) {
	n := start(t, options{})
	s := n.watch(reference(nil))
	s.want("synced")
	n.set("file", "a: gone() up() stat()")
	s.want("ADD file: gone up stat")
	n.set("file", "a: new() up(image=2) stat(phase=Running)")
	s.want("REMOVE file: gone", "ADD file: new", "UPDATE file: up", "RECONCILE file: stat")
}

// TestG5Minimal checks G5, Minimal: sets that change nothing send nothing, whatever their pointers.
func TestG5Minimal(t *testing.T) {
	n := start(t, options{})
	s := n.watch(reference(nil))
	s.want("synced")
	n.set("file", "a: web(image=1)")
	s.want("ADD file: web")
	for range 3 {
		n.set("file", "a: web(image=1)")
	}
	n.set("file", "a: web(image=1,rv=2)")
	n.set("api", "")
	if u := s.want("ADD api:"); u.cursor.GetRevision() != 2 {
		t.Errorf("revision %d; want 2, as equal sets make none", u.cursor.GetRevision())
	}
}

// TestG9Ready checks G9, Ready: each source reports once that it is ready, with its ops or by the one empty
// ADD. A source that isn't ready blocks no other.
func TestG9Ready(t *testing.T) {
	n := start(t, options{})
	s := n.watch(reference(nil))
	ready := func(u unit) string {
		t.Helper()
		if u.synced == nil {
			return fmt.Sprint(u.messages[0].GetUpdate().GetSourceReady())
		}
		var out []string
		for _, src := range u.synced.GetSources() {
			out = append(out, fmt.Sprintf("%s=%v", src.GetName(), src.GetReady()))
		}
		return strings.Join(out, " ")
	}
	check := func(u unit, want string) {
		t.Helper()
		if got := ready(u); got != want {
			t.Errorf("%s has readiness %q; want %q", u, got, want)
		}
	}
	check(s.want("synced"), "file=false api=false")
	n.set("api", "x: web()")
	check(s.want("ADD api: web"), "true")
	second := n.watch(reference(nil))
	check(second.want("ADD api: web"), "true")
	between := second.want("synced")
	check(between, "file=false api=true")
	n.set("file", "")
	check(s.want("ADD file:"), "true")
	third := n.watch(reference(nil))
	third.want("ADD api: web")
	check(third.want("synced"), "file=true api=true")
	resumed := n.watch(reference(between.cursor))
	check(resumed.want("ADD file:"), "true")
	check(resumed.want("synced"), "file=true api=true")
}
