package wire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestFrames: in every format, whole and redacted, joined and not, a unit's frames equal protobuf's messages.
// Only the last one has the cursor.
func TestFrames(t *testing.T) {
	few := pods(t, "web(image=1,phase=Running,label.app=x) db(ns=prod,deleting=30)")
	few[1].Stale = true
	medium := pods(t, "a(pad=12) b(pad=12) c(pad=12)")
	trace := revision.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "vendor=1"}
	observed := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	sources := history.Sources{{Name: "file", ReadyRevision: 7}, {Name: "api", ReadyRevision: 8}}
	for name, u := range map[string]wire.Unit{
		"an ADD":          {Changes: []revision.Change{{Op: revision.ADD, Source: "file", Pods: few}}},
		"large pods":      {Changes: []revision.Change{{Op: revision.UPDATE, Source: "file", Pods: medium, Was: medium}}},
		"a REMOVE":        {Changes: []revision.Change{{Op: revision.REMOVE, Source: "file", Pods: few}}},
		"an empty ADD":    {Changes: []revision.Change{{Op: revision.ADD, Source: "file"}}},
		"an empty SET":    {Changes: []revision.Change{{Op: revision.SET, Source: "api"}}},
		"without a label": {Changes: []revision.Change{{Op: revision.SET, Pods: few}}},
		"several ops": {
			Observed: observed, Trace: trace,
			Changes: []revision.Change{
				{Op: revision.REMOVE, Source: "api", Pods: medium}, {Op: revision.ADD, Source: "file", Pods: medium},
				{Op: revision.DELETE, Source: "file", Pods: few[1:], Was: few[1:]}, {Op: revision.RESTORE, Source: "file", Pods: few},
				{Op: revision.ADD, Source: "api"}, {Op: revision.RECONCILE, Source: "file", Pods: few[:1]},
			},
		},
	} {
		u.Number, u.Sources = 7, sources
		for _, format := range formats {
			for _, redacted := range []bool{false, true} {
				for _, last := range []*podconfigv1.Cursor{cursor, nil} {
					e := revision.EncodingFor(audience(redacted), format)
					u.Cursor = last
					got := frames(t, u, e)
					if len(got) != len(u.Changes) {
						t.Fatalf("%s as %+v: %d frames; want %d", name, e, len(got), len(u.Changes))
					}
					for i, f := range got {
						want := message(t, u, u.Changes[i], e, u.Changes[i].Source == "file")
						if want.Continued = true; i == len(got)-1 && last != nil {
							want.Continued, want.Cursor = false, last
						}
						if got := decoded(t, f); !proto.Equal(want, got) {
							t.Fatalf("%s as %+v: frame %d (-want +got):\n%s", name, e, i, cmp.Diff(want, got, protocmp.Transform()))
						}
					}
				}
			}
		}
	}
}

// TestNoChanges: a unit without changes has no frames.
func TestNoChanges(t *testing.T) {
	if got := frames(t, wire.Unit{Number: 7, Cursor: cursor}, revision.EncodingFor(audience(false), asProtobuf)); len(got) != 0 {
		t.Errorf("a unit without changes has %d frames; want none", len(got))
	}
}

// TestFragments: a message has at most about 1 MiB of pods, and a larger pod has a separate message. Each
// fragment is a separate op, in order and without loss.
func TestFragments(t *testing.T) {
	for _, tc := range []struct {
		name, pods string
		// want are the names of each message's pods.
		want []string
	}{
		{"just below", "a(pad=500) b(pad=500)", []string{"a b"}},
		{"just above", "a(pad=512) b(pad=512)", []string{"a", "b"}},
		{"the largest pod alone", "a(pad=1500)", []string{"a"}},
		{"the largest pod between others", "a() b(pad=1500) c() d()", []string{"a", "b", "c d"}},
		{"two large ones", "a(pad=1500) b(pad=1500)", []string{"a", "b"}},
		{"many", strings.Repeat("a(pad=300) ", 7), []string{"a a a", "a a a", "a"}},
	} {
		u := wire.Unit{Number: 7, Cursor: cursor, Changes: []revision.Change{{Op: revision.SET, Source: "file", Pods: pods(t, tc.pods)}}}
		var got []string
		all := frames(t, u, revision.EncodingFor(audience(false), asProtobuf))
		for i, f := range all {
			m := decoded(t, f)
			if m.GetUpdate().GetOp() != podconfigv1.PodOperation_POD_OPERATION_SET || m.GetUpdate().GetSource() != "file" ||
				m.GetContinued() != (i < len(all)-1) || (m.GetCursor() != nil) != (i == len(all)-1) {
				t.Errorf("%s: message %d is %v of %s, continued=%v, cursor %v; want a SET of file, and only the last with the cursor",
					tc.name, i, m.GetUpdate().GetOp(), m.GetUpdate().GetSource(), m.GetContinued(), m.GetCursor())
			}
			var names []string
			for _, p := range m.GetUpdate().GetPods() {
				names = append(names, p.GetRef().GetName())
			}
			got = append(got, strings.Join(names, " "))
			if size := proto.Size(m); size > 2<<20 {
				t.Errorf("%s: message %d has %d bytes; want far less than 4 MiB", tc.name, i, size)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: messages of %q; want %q", tc.name, got, tc.want)
		}
	}
}

// TestLargeSet: a SET of 3,000 pods, in each format.
func TestLargeSet(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "pod-%04d(pad=1) ", i)
	}
	all := pods(t, text.String())
	u := wire.Unit{Number: 7, Cursor: cursor, Changes: []revision.Change{{Op: revision.SET, Source: "file", Pods: all}}}
	for format, least := range map[podconfigv1.PodFormat]int{asJSON: 4, asProtobuf: 3, asReference: 1} {
		got, i := frames(t, u, revision.EncodingFor(audience(false), format)), 0
		if len(got) < least {
			t.Errorf("%v: %d messages; want %d at least", format, len(got), least)
		}
		for _, f := range got {
			for _, p := range decoded(t, f).GetUpdate().GetPods() {
				if want := all[i].Object.Name; p.GetRef().GetName() != want {
					t.Fatalf("%v: pod %d is %s; want %s", format, i, p.GetRef().GetName(), want)
				}
				i++
			}
		}
		if i != len(all) {
			t.Errorf("%v: %d pods; want %d", format, i, len(all))
		}
	}
}

// TestStopEarly: frames that aren't read cost nothing: their pods aren't encoded.
func TestStopEarly(t *testing.T) {
	u := wire.Unit{Number: 7, Cursor: cursor, Changes: []revision.Change{
		{Op: revision.ADD, Source: "file", Pods: pods(t, "a(pad=600) b(pad=600) c(pad=600)")}, {Op: revision.ADD, Source: "api"},
	}}
	n := 0
	for range wire.Frames(u, revision.EncodingFor(audience(false), asProtobuf)) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d frames after one was asked for; want 1", n)
	}
}

// TestEncodingFails: an unknown format is an error, after which nothing is returned.
func TestEncodingFails(t *testing.T) {
	u := wire.Unit{Number: 7, Cursor: cursor, Changes: []revision.Change{{Op: revision.ADD, Source: "file", Pods: pods(t, "a() b()")}}}
	var errs []error
	for f, err := range wire.Frames(u, revision.EncodingFor(audience(false), 99)) {
		if errs = append(errs, err); f != nil {
			t.Errorf("a frame comes with the error: %v", f)
		}
	}
	if len(errs) != 1 || errs[0] == nil {
		t.Errorf("errors %v; want one", errs)
	}
}

// TestFrameAllocations: the cost of one more consumer doesn't grow with the size of the pods, and no byte of
// large pods is copied.
func TestFrameAllocations(t *testing.T) {
	for _, tc := range []struct {
		name, pods string
		// most is the maximum number of allocations of a frame.
		most float64
	}{
		{"one small pod", "a()", 18},
		{"twenty small pods", strings.Repeat("a() ", 20), 24},
		{"a large pod", "a(pad=1000)", 20},
	} {
		u := wire.Unit{Number: 7, Cursor: cursor, Observed: time.Unix(1, 0), Changes: []revision.Change{
			{Op: revision.ADD, Source: "file", Pods: pods(t, tc.pods)},
		}}
		e := revision.EncodingFor(audience(false), asProtobuf)
		first := frames(t, u, e)
		got := testing.AllocsPerRun(100, func() {
			for range wire.Frames(u, e) {
			}
		})
		if got > tc.most {
			t.Errorf("%s: %v allocations a frame; want %v at most", tc.name, got, tc.most)
		}
		if tc.name != "a large pod" {
			continue
		}
		shared, err := u.Changes[0].Pods[0].Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if data := first[0][1].ReadOnlyData(); &data[0] != &shared[0] {
			t.Error("the frame has a copy of the large pod; want the shared bytes")
		}
	}
}
