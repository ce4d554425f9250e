package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestUnsaid: a SET implies that a pod is gone only if the consumer knows that its source is ready, which it never
// does for a source that it doesn't see.
func TestUnsaid(t *testing.T) {
	sources := history.Sources{{Name: "file", ReadyRevision: 3}, {Name: "api", ReadyRevision: 3}, {Name: "http"}}
	v := mustView(t, view.Config{Mode: snapshot, Filter: &podconfigv1.PodFilter{Sources: []string{"file", "http"}}})
	var ops revision.Ops
	for _, source := range []string{"file", "api", "http", "old"} {
		ops.Add(revision.REMOVE, pod("gone-"+source, of(source)), nil)
	}
	ops.Add(revision.ADD, pod("new", of("api")), nil)
	changes := ops.Changes(nil)
	for number, want := range map[uint64][]string{
		2: {"REMOVE file: gone-file", "REMOVE api: gone-api", "REMOVE http: gone-http", "REMOVE old: gone-old"},
		3: {"REMOVE api: gone-api", "REMOVE http: gone-http", "REMOVE old: gone-old"},
	} {
		if diff := cmp.Diff(want, words(v.Unsaid(changes, sources, number))); diff != "" {
			t.Errorf("what a SET at revision %d leaves unsaid (-want +got):\n%s", number, diff)
		}
	}
}
