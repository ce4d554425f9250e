package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// words formats changes, one on each line: "UPDATE file: a b".
func words(changes []revision.Change) []string {
	out := []string{}
	for _, c := range changes {
		out = append(out, strings.TrimRight(fmt.Sprintf("%s %s: %s", c.Op, c.Source, names(c.Pods)), " "))
	}
	return out
}

// dearState returns a state with file ready and api not. It fails the test if it is used although no SET is
// expected.
func dearState(t *testing.T, allowed bool, pods ...*revision.Pod) func() *history.State {
	return func() *history.State {
		if !allowed {
			t.Error("the state is asked for; want that only for a SET")
		}
		return &history.State{Number: 1, Pods: pods, Sources: history.Sources{{Name: "file", ReadyRevision: 1}, {Name: "api"}}}
	}
}

// TestG10EnterAndLeave: the result of each op depends on whether its pod was and is in the view.
func TestG10EnterAndLeave(t *testing.T) {
	a, b := pod("a"), pod("a", tier("b"))
	other := pod("o", tier("b"))
	for _, tc := range []struct {
		name    string
		op      revision.Op
		was, is *revision.Pod
		want    []string
	}{
		{"updated inside", revision.UPDATE, a, pod("a"), []string{"UPDATE file: a"}},
		{"deleted inside", revision.DELETE, a, pod("a"), []string{"DELETE file: a"}},
		{"reconciled inside", revision.RECONCILE, a, pod("a"), []string{"RECONCILE file: a"}},
		{"updated into it", revision.UPDATE, b, a, []string{"ADD file: a"}},
		{"deleted, and in it since", revision.DELETE, b, a, []string{"ADD file: a"}},
		{"updated out of it", revision.UPDATE, a, b, []string{"REMOVE file: a"}},
		{"deleted, and out of it since", revision.DELETE, a, b, []string{"REMOVE file: a"}},
		{"updated outside", revision.UPDATE, b, pod("a", tier("b")), []string{}},
		{"reconciled outside", revision.RECONCILE, b, pod("a", tier("b")), []string{}},
		{"added", revision.ADD, nil, a, []string{"ADD file: a"}},
		{"added outside", revision.ADD, nil, other, []string{}},
		{"restored", revision.RESTORE, nil, a, []string{"RESTORE file: a"}},
		{"restored outside", revision.RESTORE, nil, other, []string{}},
		{"removed", revision.REMOVE, nil, a, []string{"REMOVE file: a"}},
		{"removed outside", revision.REMOVE, nil, other, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := mustView(t, view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "tier=a"}})
			var ops revision.Ops
			ops.Add(tc.op, tc.is, tc.was)
			rev := &revision.Revision{Number: 1, Source: "file", Changes: ops.Changes(nil)}
			got := v.Changes(rev, dearState(t, false))
			if diff := cmp.Diff(tc.want, words(got)); diff != "" {
				t.Fatalf("the ops (-want +got):\n%s", diff)
			}
			if len(got) == 0 {
				return
			}
			switch p := got[0].Pods[0]; {
			case got[0].Op == revision.REMOVE && tc.was != nil:
				if p != tc.was || got[0].Was != nil {
					t.Errorf("REMOVE has %v, was %v; want the version that the consumer holds, and no Was", p, got[0].Was)
				}
			case p != tc.is:
				t.Errorf("%s has %v; want the new version", got[0].Op, p)
			case got[0].Op == tc.op && tc.was != nil && (len(got[0].Was) != 1 || got[0].Was[0] != tc.was):
				t.Errorf("%s has Was %v; want the version before", got[0].Op, got[0].Was)
			}
		})
	}
}

// TestG10Order: ops that are derived from others come in the kubelet's order.
func TestG10Order(t *testing.T) {
	var ops revision.Ops
	ops.Add(revision.REMOVE, pod("gone"), nil)
	ops.Add(revision.ADD, pod("new", of("api")), nil)
	ops.Add(revision.UPDATE, pod("enters"), pod("enters", tier("b")))
	ops.Add(revision.UPDATE, pod("stays"), pod("stays"))
	ops.Add(revision.DELETE, pod("leaves", tier("b")), pod("leaves"))
	ops.Add(revision.RECONCILE, pod("runs"), pod("runs"))
	rev := &revision.Revision{Number: 1, Source: "file", Changes: ops.Changes(nil)}
	v := mustView(t, view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "tier=a"}})
	want := []string{
		"REMOVE file: gone leaves", "ADD api: new", "ADD file: enters", "UPDATE file: stays", "RECONCILE file: runs",
	}
	if diff := cmp.Diff(want, words(v.Changes(rev, dearState(t, false)))); diff != "" {
		t.Errorf("the ops (-want +got):\n%s", diff)
	}
}

// TestG9ReadyIsSent: the readiness of a source is sent even if the filter removes its ops, unless the consumer
// doesn't see the source.
func TestG9ReadyIsSent(t *testing.T) {
	inside, outside := pod("in"), pod("out", tier("b"))
	selector := view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "tier=a"}}
	for _, tc := range []struct {
		name string
		cfg  view.Config
		op   revision.Op
		pod  *revision.Pod
		want []string
	}{
		{"with no pods", selector, 0, nil, []string{"ADD file:"}},
		{"with a pod inside", selector, revision.ADD, inside, []string{"ADD file: in"}},
		{"with a pod outside", selector, revision.ADD, outside, []string{"ADD file:"}},
		{"with a removal inside", selector, revision.REMOVE, inside, []string{"REMOVE file: in", "ADD file:"}},
		{"with a removal outside", selector, revision.REMOVE, outside, []string{"ADD file:"}},
		{"in the mode snapshot", view.Config{Mode: snapshot, Filter: selector.Filter}, revision.ADD, outside, []string{"SET file: in"}},
		{"where other sources are asked for", view.Config{Filter: &podconfigv1.PodFilter{Sources: []string{"api"}}}, revision.ADD, inside,
			[]string{}},
		{"where others are in the scope", view.Config{Sources: []string{"api"}}, 0, nil, []string{}},
		{"where others are in the scope, in the mode snapshot", view.Config{Mode: snapshot, Sources: []string{"api"}}, revision.ADD,
			inside, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ops revision.Ops
			if tc.pod != nil {
				ops.Add(tc.op, tc.pod, nil)
			}
			ops.Ready("file")
			rev := &revision.Revision{Number: 1, Source: "file", BecameReady: true, SourceReady: true, Changes: ops.Changes(nil)}
			got := mustView(t, tc.cfg).Changes(rev, dearState(t, tc.cfg.Mode == snapshot, inside, outside))
			if diff := cmp.Diff(tc.want, words(got)); diff != "" {
				t.Errorf("the ops (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRemovalOfAnUnreadySource: a consumer keeps the pods that a SET lacks of a source that isn't ready, so a
// REMOVE is sent.
func TestRemovalOfAnUnreadySource(t *testing.T) {
	all := []*revision.Pod{pod("web"), pod("db", of("api"))}
	for _, tc := range []struct {
		name   string
		source string
		op     revision.Op
		p, was *revision.Pod
		add    *revision.Pod
		want   []string
	}{
		{"a source that is ready", "file", revision.REMOVE, pod("gone"), nil, nil, []string{"SET file: web db"}},
		{"a source that isn't", "api", revision.REMOVE, pod("gone", of("api")), nil, nil, []string{"REMOVE api: gone", "SET api: web db"}},
		{"its pod leaves the view", "api", revision.UPDATE, pod("gone", of("api"), tier("b")), pod("gone", of("api")), nil,
			[]string{"REMOVE api: gone", "SET api: web db"}},
		{"its pod loses the name to one of a source that is ready", "file", revision.REMOVE, pod("web", of("api")), nil, pod("web"),
			[]string{"REMOVE api: web", "SET file: web db"}},
		{"its pod was never in the view", "api", revision.REMOVE, pod("gone", of("api"), tier("b")), nil, nil, []string{}},
		{"a source that is configured no longer", "file", revision.REMOVE, pod("gone", of("old")), nil, nil,
			[]string{"REMOVE old: gone", "SET file: web db"}},
	} {
		for _, mode := range []podconfigv1.NotificationMode{snapshotAndUpdates, snapshot} {
			t.Run(tc.name+"/"+mode.String(), func(t *testing.T) {
				var ops revision.Ops
				ops.Add(tc.op, tc.p, tc.was)
				if tc.add != nil {
					ops.Add(revision.ADD, tc.add, nil)
				}
				rev := &revision.Revision{Number: 1, Source: tc.source, Changes: ops.Changes(nil)}
				v := mustView(t, view.Config{Mode: mode, Filter: &podconfigv1.PodFilter{LabelSelector: "tier=a"}})
				got := v.Changes(rev, dearState(t, len(tc.want) > 0, all...))
				if diff := cmp.Diff(tc.want, words(got)); diff != "" {
					t.Errorf("the ops (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestSetOfAnUnseenSource: another source's set frees a name for a pod that the consumer sees. The SET has that
// pod's source, because the consumer may not see the other one.
func TestSetOfAnUnseenSource(t *testing.T) {
	var ops revision.Ops
	ops.Add(revision.REMOVE, pod("old", of("file")), nil)
	ops.Add(revision.ADD, pod("new", of("api")), nil)
	rev := &revision.Revision{Number: 1, Source: "file", BecameReady: true, Changes: ops.Changes(nil)}
	v := mustView(t, view.Config{Mode: snapshotAndUpdates, Sources: []string{"api"}})
	got := words(v.Changes(rev, dearState(t, true, pod("new", of("api")), pod("secret", of("file")))))
	if diff := cmp.Diff([]string{"SET api: new"}, got); diff != "" {
		t.Errorf("the ops (-want +got):\n%s", diff)
	}
}

// TestEverything: a consumer without filter and scope receives the revision's own changes.
func TestEverything(t *testing.T) {
	changes := []revision.Change{{Op: revision.ADD, Source: "file", Pods: []*revision.Pod{pod("a")}}}
	got := mustView(t, view.Config{}).Changes(&revision.Revision{Number: 1, Source: "file", Changes: changes}, dearState(t, false))
	if len(got) != 1 || &got[0] != &changes[0] {
		t.Errorf("the changes are %v; want those of the revision themselves", got)
	}
}

// TestG10Follows checks G10 and G5: a strict consumer that has only matching pods, and applies its view of each
// revision, has exactly the matching pods after each.
func TestG10Follows(t *testing.T) {
	sources := []string{"file", "http", "api"}
	for _, mode := range []podconfigv1.NotificationMode{incremental, snapshotAndUpdates, snapshot} {
		t.Run(mode.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				random, v := mergetest.NewVaried(sources...), mergetest.DrawView(t, mode, sources...)
				merger := merge.New([]merge.Source{{Name: "file"}, {Name: "http"}, {Name: "api"}}, merge.Stored{})
				h := history.New(history.Config{Instance: history.Instance{ID: "life"}, Sources: sources})
				consumer := mergetest.ViewerAt(h.State(), v)
				for range rapid.IntRange(1, 15).Draw(t, "sets") {
					rev := merger.Apply(random.Draw(t))
					if rev == nil {
						continue
					}
					h.Append(rev)
					st := h.State()
					changes := v.Changes(rev, h.State)
					ready := func(source string) bool { return st.ReadyAt(source, st.Number) }
					if err := consumer.Apply(changes, ready); err != nil {
						t.Fatalf("revision %d: %v, in\n%v\nof\n%v", rev.Number, err, words(changes), words(rev.Changes))
					}
					if err := consumer.Diff(st.Pods, func(string) bool { return false }); err != nil {
						t.Fatalf("revision %d: %v, after\n%v\nof\n%v", rev.Number, err, words(changes), words(rev.Changes))
					}
				}
			})
		})
	}
}
