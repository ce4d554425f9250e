package wire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	asJSON      = podconfigv1.PodFormat_POD_FORMAT_JSON
	asProtobuf  = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	asReference = podconfigv1.PodFormat_POD_FORMAT_REFERENCE
)

var formats = []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, asJSON, asProtobuf, asReference}

// pods are those of a text in mergetest's notation, of the source file.
func pods(t *testing.T, text string) []*revision.Pod {
	t.Helper()
	origins, err := mergetest.Origins("a: " + text)
	if err != nil {
		t.Fatal(err)
	}
	var out []*revision.Pod
	for _, p := range origins[0].Pods {
		out = append(out, &revision.Pod{Object: p.Pod, Source: "file", SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest})
	}
	return out
}

// frames are the unit's, collected.
func frames(t *testing.T, u wire.Unit, e revision.Encoding) []wire.Frame {
	t.Helper()
	var out []wire.Frame
	for f, err := range wire.Frames(u, e) {
		if err != nil {
			t.Fatalf("Frames: %v; want frames", err)
		}
		out = append(out, f)
	}
	return out
}

// decoded is what a client makes of a frame.
func decoded(t *testing.T, f wire.Frame) *podconfigv1.WatchPodUpdatesResponse {
	t.Helper()
	m := &podconfigv1.WatchPodUpdatesResponse{}
	if err := proto.Unmarshal(mem.BufferSlice(f).Materialize(), m); err != nil {
		t.Fatalf("the frame can't be decoded: %v", err)
	}
	if len(m.ProtoReflect().GetUnknown()) > 0 || len(m.GetUpdate().ProtoReflect().GetUnknown()) > 0 {
		t.Fatal("the frame has fields that the contract doesn't know")
	}
	return m
}

// message is what a frame has to be equal to, made by protobuf.
func message(t *testing.T, u wire.Unit, c revision.Change, e revision.Encoding, ready bool) *podconfigv1.WatchPodUpdatesResponse {
	t.Helper()
	update := &podconfigv1.PodUpdate{Op: podconfigv1.PodOperation(c.Op), Source: c.Source, SourceReady: ready}
	if !u.Observed.IsZero() {
		update.ObservedTime = timestamppb.New(u.Observed)
	}
	if u.Trace.Parent != "" {
		update.TraceContext = &podconfigv1.TraceContext{Traceparent: u.Trace.Parent, Tracestate: u.Trace.State}
	}
	if c.Op == revision.REMOVE {
		e.Format = asReference
	}
	for _, p := range c.Pods {
		m, err := p.Message(e)
		if err != nil {
			t.Fatal(err)
		}
		if c.Op == revision.REMOVE {
			m.Stale = false
		}
		update.Pods = append(update.Pods, m)
	}
	// By way of bytes, as a client would get it.
	data, err := proto.Marshal(&podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: update}})
	if err != nil {
		t.Fatal(err)
	}
	out := &podconfigv1.WatchPodUpdatesResponse{}
	if err := proto.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

var cursor = &podconfigv1.Cursor{InstanceId: "instance", Revision: 7, View: "view"}

// TestFrames: in every format, whole and redacted, small enough to be joined and not, a unit's frames are the messages that
// protobuf would make of it. The last one bears the cursor, all others say that more follow.
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
					e := revision.Encoding{Format: format, Redacted: redacted}
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
	if got := frames(t, wire.Unit{Number: 7, Cursor: cursor}, revision.Encoding{}); len(got) != 0 {
		t.Errorf("a unit without changes has %d frames; want none", len(got))
	}
}

// TestFragments: a message holds about 1 MiB of pods at most, and a pod that is larger than that has its own. Each fragment is
// an op for itself, in order and without loss.
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
		all := frames(t, u, revision.Encoding{Format: asProtobuf})
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
		got, i := frames(t, u, revision.Encoding{Format: format}), 0
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

// TestStopEarly: whoever stops reading frames doesn't pay for the rest: pods that weren't asked for aren't encoded.
func TestStopEarly(t *testing.T) {
	u := wire.Unit{Number: 7, Cursor: cursor, Changes: []revision.Change{
		{Op: revision.ADD, Source: "file", Pods: pods(t, "a(pad=600) b(pad=600) c(pad=600)")}, {Op: revision.ADD, Source: "api"},
	}}
	n := 0
	for range wire.Frames(u, revision.Encoding{Format: asProtobuf}) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d frames after one was asked for; want 1", n)
	}
}

// TestEncodingFails: a format that isn't known is an error, and the last thing that comes.
func TestEncodingFails(t *testing.T) {
	u := wire.Unit{Number: 7, Cursor: cursor, Changes: []revision.Change{{Op: revision.ADD, Source: "file", Pods: pods(t, "a() b()")}}}
	var errs []error
	for f, err := range wire.Frames(u, revision.Encoding{Format: 99}) {
		if errs = append(errs, err); f != nil {
			t.Errorf("a frame comes with the error: %v", f)
		}
	}
	if len(errs) != 1 || errs[0] == nil {
		t.Errorf("errors %v; want one", errs)
	}
}

// TestFrameAllocations: what a further consumer costs doesn't grow with the size of the pods, and of large ones no byte is copied.
func TestFrameAllocations(t *testing.T) {
	for _, tc := range []struct {
		name, pods string
		// most is how many allocations a frame may take.
		most float64
	}{
		{"one small pod", "a()", 18},
		{"twenty small pods", strings.Repeat("a() ", 20), 24},
		{"a large pod", "a(pad=1000)", 20},
	} {
		u := wire.Unit{Number: 7, Cursor: cursor, Observed: time.Unix(1, 0), Changes: []revision.Change{
			{Op: revision.ADD, Source: "file", Pods: pods(t, tc.pods)},
		}}
		e := revision.Encoding{Format: asProtobuf}
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
