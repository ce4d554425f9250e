package view_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestUpstreamsTable: for every combination of a merge's results, the ops of each mode are the kubelet's
// (podStorage.Merge in pkg/kubelet/config), in its order.
func TestUpstreamsTable(t *testing.T) {
	state := []*revision.Pod{pod("add"), pod("update"), pod("delete"), pod("reconcile"), pod("elsewhere", of("api"))}
	const all = "add update delete reconcile elsewhere"
	for bits := range 64 {
		has := func(bit int) bool { return bits&(1<<bit) != 0 }
		removes, adds, updates, deletes, reconciles, firstSet := has(0), has(1), has(2), has(3), has(4), has(5)
		var ops revision.Ops
		for _, found := range []struct {
			there bool
			op    revision.Op
			name  string
		}{
			{removes, revision.REMOVE, "remove"}, {adds, revision.ADD, "add"}, {updates, revision.UPDATE, "update"},
			{deletes, revision.DELETE, "delete"}, {reconciles, revision.RECONCILE, "reconcile"},
		} {
			switch {
			case !found.there:
			case found.op == revision.REMOVE || found.op == revision.ADD:
				ops.Add(found.op, pod(found.name), nil)
			default:
				ops.Add(found.op, pod(found.name), pod(found.name))
			}
		}
		if firstSet {
			ops.Ready("file")
		}
		rev := &revision.Revision{Number: 1, Source: "file", BecameReady: firstSet, SourceReady: true, Changes: ops.Changes(nil)}

		set, update, deletion := "SET file: "+all, "UPDATE file: update", "DELETE file: delete"
		for mode, want := range map[podconfigv1.NotificationMode][]string{
			incremental: lines(
				row{removes, "REMOVE file: remove"}, row{adds, "ADD file: add"}, row{updates, update}, row{deletes, deletion},
				row{firstSet && !adds && !updates && !deletes, "ADD file:"}, row{reconciles, "RECONCILE file: reconcile"},
			),
			snapshotAndUpdates: lines(row{removes || adds || firstSet, set}, row{updates, update}, row{deletes, deletion}),
			snapshot:           lines(row{removes || adds || updates || deletes || firstSet, set}),
		} {
			wantsSet := slices.Contains(want, set)
			// The filter matches all pods. It keeps incremental from returning the revision's own changes.
			v := mustView(t, view.Config{Mode: mode, Filter: &podconfigv1.PodFilter{Namespaces: []string{"default"}}})
			got := words(v.Changes(rev, dearState(t, wantsSet, state...)))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: removes %v, adds %v, updates %v, deletes %v, reconciles %v, first set %v (-want +got):\n%s",
					mode, removes, adds, updates, deletes, reconciles, firstSet, diff)
			}
		}
	}
}

type row struct {
	there bool
	line  string
}

func lines(rows ...row) []string {
	out := []string{}
	for _, r := range rows {
		if r.there {
			out = append(out, r.line)
		}
	}
	return out
}
