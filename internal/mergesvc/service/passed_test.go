package service_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// versions returns weak pointers to the current versions of all pods.
func (n *node) versions() []weak.Pointer[revision.Pod] {
	var out []weak.Pointer[revision.Pod]
	for _, p := range n.hub.History().State().Pods {
		out = append(out, weak.Make(p))
	}
	return out
}

// alive returns how many of the versions are still in memory.
func alive[T any](versions []weak.Pointer[T]) int {
	runtime.GC()
	count := 0
	for _, v := range versions {
		if v.Value() != nil {
			count++
		}
	}
	return count
}

// TestG8StalledCatchups: consumers that stop reading in the middle of a catch-up, or of a large revision, keep
// no version of a pod that the history has dropped, for any number of consumers and any view.
func TestG8StalledCatchups(t *testing.T) {
	const stalled, pods = 12, 40
	names := map[string]*podconfigv1.PodFilter{"everything": nil, "a filter": {Namespaces: []string{"default"}}}
	for _, mode := range []podconfigv1.NotificationMode{incremental, snapshot, snapshotAndUpdates} {
		for name, filter := range names {
			t.Run(fmt.Sprintf("%v, %s", mode, name), func(t *testing.T) {
				n := start(t, options{revisions: 8})
				set := func(image, count int) {
					var b strings.Builder
					for i := range count {
						fmt.Fprintf(&b, "p%d(pad=100,image=%d) ", i, image)
					}
					n.set("file", "f: "+b.String())
				}
				var old []weak.Pointer[revision.Pod]
				watch := func(name string) *gated {
					return n.gated(&podconfigv1.WatchPodUpdatesRequest{
						Consumer: name, Mode: mode, Filter: filter, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
					})
				}
				for k := range stalled {
					set(k, pods)
					old = append(old, n.versions()...)
					// One consumer stalls in its first message. The other has read everything and stalls in a
					// large revision.
					watch(fmt.Sprint("first-", k)).waits()
					live := watch(fmt.Sprint("live-", k))
					for live.waits().GetSynced() == nil {
						live.take()
					}
					live.take()
					set(1000+k, pods)
					live.waits()
					old = append(old, n.versions()...)
				}
				for i := range 20 {
					set(2000+i, 1)
				}
				collected(t, old)
			})
		}
	}
}

// caughtUp reads units until synced, and returns the consumer's pods, by name with the image, and the units'
// cursors.
func caughtUp(t *testing.T, g *gated, first *podconfigv1.WatchPodUpdatesResponse) (held map[string]string, cursors []*podconfigv1.Cursor) {
	t.Helper()
	held = map[string]string{}
	for m := first; ; m = g.waits() {
		for _, p := range m.GetUpdate().GetPods() {
			if m.GetUpdate().GetOp() == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
				delete(held, p.GetRef().GetName())
			} else {
				held[p.GetRef().GetName()] = p.GetSpecDigest()
			}
		}
		if h := m.GetHeartbeat(); h != nil && len(h.GetSources()) == 0 {
			t.Errorf("the unit at revision %d is closed without the sources; want them all, as in every heartbeat", h.GetRevision())
		}
		if m.GetCursor() != nil {
			cursors = append(cursors, m.GetCursor())
		}
		g.take()
		if m.GetSynced() != nil {
			return held, cursors
		}
	}
}

// TestPassedCatchup: a consumer that reads again after the history has dropped the revision of its catch-up
// receives the rest in current versions, then the changes since, and then synced with exactly the current
// state. The cursor in between can't be resumed from, and a consumer that sends it converges too.
func TestPassedCatchup(t *testing.T) {
	for _, tc := range []struct {
		name string
		then string
	}{
		{"changed", "f: a(image=2,pad=700) b(image=2,pad=700) c(image=2,pad=700)"},
		{"the first is gone", "f: b(image=2,pad=700) c(pad=700)"},
		{"the last are gone", "f: a(pad=700,image=3)"},
		{"others came", "f: a(pad=700) b(image=2,pad=700) c(pad=700) d() e()"},
		{"all are gone", "f:"},
		{"others under their UIDs", "f: x(uid=a) y(uid=b) z(uid=c)"},
	} {
		for _, mode := range []podconfigv1.NotificationMode{incremental, snapshot, snapshotAndUpdates} {
			t.Run(fmt.Sprintf("%s, %v", tc.name, mode), func(t *testing.T) {
				n := start(t, options{revisions: 2})
				n.set("api", "")
				n.set("file", "f: a(pad=700) b(pad=700) c(pad=700)")
				old := n.versions()
				slow := n.gated(&podconfigv1.WatchPodUpdatesRequest{Mode: mode, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
				first := slow.waits()
				n.set("file", "f: a(image=9) b(image=9) c(image=9)")
				n.set("file", tc.then)
				for i := range 4 {
					n.set("api", fmt.Sprintf("x: other(image=%d)", i))
				}
				until(t, "the first versions are collected", func() bool { return alive(old) == 0 })
				got, cursors := caughtUp(t, slow, first)
				want := map[string]string{}
				for _, p := range n.hub.History().State().Pods {
					want[p.Object.Name] = p.SpecDigest
				}
				if mode != incremental {
					// The consumer removes the pods that a SET lacks.
					for name := range got {
						if want[name] == "" {
							delete(got, name)
						}
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("the consumer holds %v; want %v", got, want)
				}
				if len(cursors) < 2 || !strings.HasSuffix(cursors[0].GetView(), "-passed") || cursors[0].GetRevision() >= cursors[1].GetRevision() {
					t.Fatalf("the cursors are %v; want one of no view, and then one of a later revision", cursors)
				}
				resumed := n.watch(&podconfigv1.WatchPodUpdatesRequest{
					Mode: mode, ResumeAfter: cursors[0], Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
				})
				if op := resumed.next().GetUpdate().GetOp(); op != podconfigv1.PodOperation_POD_OPERATION_SET {
					t.Errorf("from the cursor of no view without known pods comes %v; want a SET", op)
				}
			})
		}
	}
}

// TestPassedInspector: an inspector whose units' revisions are dropped repeatedly receives the visible changes,
// and not the whole state each time.
func TestPassedInspector(t *testing.T) {
	n := start(t, options{revisions: 2})
	n.set("api", "")
	// The pods are large for an inspector too. It doesn't see p.
	pods := func(p, a, b, c int) string {
		text := "f:"
		for i, image := range []int{a, b, c} {
			text += fmt.Sprintf(" %c(env.P=%d,image=%d%s)", 'a'+i, p, image, strings.Repeat("x", 300<<10))
		}
		return text
	}
	n.set("file", pods(0, 1, 1, 1))
	old := n.versions()
	slow := n.gatedAs(inspector, &podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	read := func(first *podconfigv1.WatchPodUpdatesResponse, last func(*podconfigv1.WatchPodUpdatesResponse) bool) string {
		var got []string
		for m := first; ; m = slow.waits() {
			for _, p := range m.GetUpdate().GetPods() {
				got = append(got, fmt.Sprint(m.GetUpdate().GetOp(), " ", p.GetRef().GetName()))
			}
			slow.take()
			if last(m) {
				return strings.ReplaceAll(strings.Join(got, ", "), "POD_OPERATION_", "")
			}
		}
	}
	pass := func(first string) {
		n.set("file", first)
		for i := range 4 {
			n.set("api", fmt.Sprintf("x: other(env.P=%d)", i))
		}
		until(t, "the versions are collected", func() bool { return alive(old) == 0 })
	}

	first := slow.waits()
	pass(pods(1, 1, 2, 1))
	synced := func(m *podconfigv1.WatchPodUpdatesResponse) bool { return m.GetSynced() != nil }
	if got, want := read(first, synced), "ADD a, ADD b, ADD c, ADD other, UPDATE b"; got != want {
		t.Errorf("an inspector whose first state passed receives %s; want %s", got, want)
	}

	n.set("file", pods(1, 3, 3, 3))
	first = slow.waits()
	old = n.versions()
	pass(pods(2, 3, 3, 4))
	honoured := func(m *podconfigv1.WatchPodUpdatesResponse) bool {
		return m.GetCursor() != nil && !strings.HasSuffix(m.GetCursor().GetView(), "-passed")
	}
	if got, want := read(first, honoured), "UPDATE a, UPDATE b, UPDATE c"; got != want {
		t.Errorf("an inspector whose large revision passed receives %s; want %s", got, want)
	}
}

// TestPassedSet: a SET at the start of a stream whose revision is dropped is closed with the readiness of the
// sources: a consumer that has a removed pod removes it by that SET, because nothing later names the pod.
func TestPassedSet(t *testing.T) {
	n := start(t, options{revisions: 2})
	n.set("api", "")
	n.set("file", "f: a(pad=700) b(pad=700) c(pad=700)")
	old := n.versions()
	slow := n.gated(&podconfigv1.WatchPodUpdatesRequest{
		ResumeAfter: &podconfigv1.Cursor{InstanceId: "other", Revision: 7}, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
	})
	first := slow.waits()
	for i := range 4 {
		n.set("file", fmt.Sprintf("f: a(image=%d) b(image=%d) c(image=%d)", i, i, i))
	}
	until(t, "the first versions are collected", func() bool { return alive(old) == 0 })

	// The consumer's pods of the source file, and the pods sent in the current unit.
	held, ready, set := map[string]bool{"gone": true, "a": true}, false, map[string]bool(nil)
	for m := first; ; m = slow.waits() {
		if m.GetUpdate().GetOp() == podconfigv1.PodOperation_POD_OPERATION_SET {
			if set == nil {
				set = map[string]bool{}
			}
			for _, p := range m.GetUpdate().GetPods() {
				set[p.GetRef().GetName()] = true
			}
		}
		for _, s := range append(m.GetHeartbeat().GetSources(), m.GetSynced().GetSources()...) {
			ready = ready || s.GetName() == "file" && s.GetReady()
		}
		if m.GetCursor() != nil && set != nil {
			for name := range held {
				if !set[name] && ready {
					delete(held, name)
				}
			}
			set = nil
		}
		slow.take()
		if m.GetSynced() != nil {
			break
		}
	}
	if held["gone"] || !held["a"] {
		t.Errorf("after synced the consumer holds %v; want only the removed pod to be gone, by the SET", held)
	}
}
