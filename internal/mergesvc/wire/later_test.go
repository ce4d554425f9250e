package wire_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// said formats the messages, one op on each line. Consecutive parts of one op are joined.
func said(messages []*podconfigv1.WatchPodUpdatesResponse) string {
	var lines []string
	last := ""
	for _, m := range messages {
		op := fmt.Sprintf("%s %s:", strings.TrimPrefix(m.GetUpdate().GetOp().String(), "POD_OPERATION_"), m.GetUpdate().GetSource())
		if op != last {
			lines = append(lines, op)
		}
		last = op
		for _, p := range m.GetUpdate().GetPods() {
			lines[len(lines)-1] += fmt.Sprintf(" %s/%.8s", p.GetRef().GetUid(), strings.TrimPrefix(p.GetSpecDigest(), "sha256:"))
		}
	}
	return strings.Join(lines, "\n")
}

// passed is the cursor of a unit whose revision the history has dropped.
var passed = &podconfigv1.Cursor{InstanceId: "instance", Revision: 7, View: "none"}

// messages returns all messages of the Later, and checks its cursors.
func messages(t *testing.T, l *wire.Later) []*podconfigv1.WatchPodUpdatesResponse {
	t.Helper()
	var out []*podconfigv1.WatchPodUpdatesResponse
	for more := true; more; {
		var f wire.Frame
		var err error
		if f, more, err = l.Next(cursor, passed); err != nil {
			t.Fatal(err)
		}
		if f == nil {
			if more || !l.Passed() {
				t.Error("there is no message, though more follow, or nothing has passed")
			}
			break
		}
		m := decoded(t, f)
		want := cursor
		if l.Passed() {
			want = passed
		}
		if m.GetContinued() != more || !more && m.GetCursor().GetView() != want.GetView() || more && m.GetCursor() != nil {
			t.Errorf("a message has continued=%v and the cursor %v, and more=%v", m.GetContinued(), m.GetCursor(), more)
		}
		out = append(out, m)
	}
	if l.Sent() != len(out) {
		t.Errorf("%d messages are counted; want %d", l.Sent(), len(out))
	}
	return out
}

// TestLaterIsTheUnit: while its revision is kept, a Later has the same messages as the frames of the unit, for
// any size of messages.
func TestLaterIsTheUnit(t *testing.T) {
	all := pods(t, "a(pad=100) b(pad=100) c(pad=100) d(pad=300) e() f() g(pad=200)")
	changes := []revision.Change{
		{Op: revision.REMOVE, Source: "file", Pods: all[:2]}, {Op: revision.SET, Source: "file"}, {Op: revision.SET, Source: "file", Pods: all},
		{Op: revision.ADD, Source: "file", Pods: all[2:5]}, {Op: revision.UPDATE, Source: "file", Pods: all[5:]},
		{Op: revision.ADD, Source: "api"}, {Op: revision.RECONCILE, Source: "api", Pods: all[:4]},
	}
	for _, format := range formats {
		for last := 1; last <= len(changes); last++ {
			e := revision.EncodingFor(audience(false), format)
			u := wire.Unit{Number: 5, Changes: changes[:last], Cursor: cursor}
			var want []*podconfigv1.WatchPodUpdatesResponse
			for _, f := range frames(t, u, e) {
				want = append(want, decoded(t, f))
			}
			l, err := wire.NewLater(u, wire.LaterConfig{Encoding: e})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(said(want), said(messages(t, l))); diff != "" {
				t.Errorf("%d changes in %v (-frames +later):\n%s", last, format, diff)
			}
			if l.Passed() {
				t.Error("the revision has passed; want it kept, as its pods are")
			}
		}
	}
	runtime.KeepAlive(all)
}

// TestLaterPassed: for a pod whose version was dropped the current one is sent, unless the op can't express it.
func TestLaterPassed(t *testing.T) {
	for name, tc := range map[string]struct {
		op  revision.Op
		now *revision.Pod
		// reported is set if the current version comes.
		reported bool
	}{
		"ADD, changed":                       {revision.ADD, &revision.Pod{SpecChanged: 9}, true},
		"ADD, gone":                          {revision.ADD, nil, false},
		"ADD, another one under its UID":     {revision.ADD, &revision.Pod{Created: 9, SpecChanged: 9}, false},
		"RESTORE, changed":                   {revision.RESTORE, &revision.Pod{SpecChanged: 9}, true},
		"SET, changed":                       {revision.SET, &revision.Pod{SpecChanged: 9}, true},
		"SET, gone":                          {revision.SET, nil, false},
		"UPDATE, the status changed":         {revision.UPDATE, &revision.Pod{SpecChanged: 5, StatusChanged: 9}, true},
		"UPDATE, the spec changed":           {revision.UPDATE, &revision.Pod{SpecChanged: 9}, false},
		"DELETE, the spec changed":           {revision.DELETE, &revision.Pod{SpecChanged: 9}, false},
		"RECONCILE, the status changed":      {revision.RECONCILE, &revision.Pod{SpecChanged: 5, StatusChanged: 9}, true},
		"RECONCILE, the spec changed":        {revision.RECONCILE, &revision.Pod{SpecChanged: 9}, false},
		"ADD, changed and out of the filter": {revision.ADD, &revision.Pod{SpecChanged: 9, Stale: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			kept := pods(t, "first() last()")
			later := func() *wire.Later {
				lost := pods(t, "lost()")
				l, err := wire.NewLater(wire.Unit{Number: 5, Cursor: cursor, Changes: []revision.Change{
					{Op: tc.op, Source: "file", Pods: []*revision.Pod{kept[0], lost[0], kept[1]}},
				}}, wire.LaterConfig{
					// A stale version is one that the consumer doesn't see.
					Matches: func(p *revision.Pod) bool { return !p.Stale },
					Changed: func(p *revision.Pod) (spec, status uint64) { return p.SpecChanged, p.StatusChanged },
					Current: func(uid types.UID) *revision.Pod {
						if tc.now == nil || uid != "lost" {
							return nil
						}
						now := pods(t, "lost(image=2)")[0]
						now.Created, now.SpecChanged, now.StatusChanged, now.Stale = tc.now.Created, tc.now.SpecChanged, tc.now.StatusChanged, tc.now.Stale
						return now
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}()
			runtime.GC()
			var got []string
			for _, m := range messages(t, later) {
				for _, p := range m.GetUpdate().GetPods() {
					got = append(got, p.GetRef().GetUid())
				}
			}
			want := []string{"first", "last"}
			if tc.reported {
				want = []string{"first", "lost", "last"}
			}
			if diff := cmp.Diff(want, got); diff != "" || !later.Passed() {
				t.Errorf("the pods (-want +got):\n%s\npassed: %v; want true", diff, later.Passed())
			}
			runtime.KeepAlive(kept)
		})
	}
}

// TestLaterEmpty: an ADD without pods left doesn't report readiness, but a SET without pods left is a SET.
func TestLaterEmpty(t *testing.T) {
	for op, want := range map[revision.Op]string{revision.ADD: "REMOVE file: gone/", revision.SET: "REMOVE file: gone/\nSET file:"} {
		later := func() *wire.Later {
			l, err := wire.NewLater(wire.Unit{Number: 5, Cursor: cursor, Changes: []revision.Change{
				{Op: revision.REMOVE, Source: "file", Pods: pods(t, "gone()")}, {Op: op, Source: "file", Pods: pods(t, "lost() lost2()")},
			}}, wire.LaterConfig{Current: func(types.UID) *revision.Pod { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}()
		runtime.GC()
		var got []*podconfigv1.WatchPodUpdatesResponse
		for more := true; more; {
			var f wire.Frame
			var err error
			if f, more, err = later.Next(cursor, passed); err != nil {
				t.Fatal(err)
			}
			if f != nil {
				m := decoded(t, f)
				for _, p := range m.GetUpdate().GetPods() {
					p.SpecDigest = ""
				}
				got = append(got, m)
			}
		}
		if said(got) != want || !later.Passed() {
			t.Errorf("%s of which nothing is left: %q, passed %v; want %q", op, said(got), later.Passed(), want)
		}
	}
}
