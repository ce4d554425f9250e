package revision_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

func namedPod(source, name string) *revision.Pod {
	return &revision.Pod{Source: source, Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}}
}

// described formats changes: "UPDATE file: a(was b)".
func described(changes []revision.Change) []string {
	var out []string
	for _, c := range changes {
		words := []string{c.Op.String() + " " + c.Source + ":"}
		for i, p := range c.Pods {
			word := string(p.UID())
			if c.Was != nil {
				word += "(was " + string(c.Was[i].UID()) + ")"
			}
			words = append(words, word)
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// TestOpsOrder adds ops in any order, and expects the kubelet's order: the empty ADD comes before RECONCILE.
// Within an op, it expects the sources in the order in which they were added or, if an order is given, in that
// order and others by name.
func TestOpsOrder(t *testing.T) {
	var ops revision.Ops
	all := []revision.Op{revision.RECONCILE, revision.RESTORE, revision.DELETE, revision.UPDATE, revision.ADD, revision.REMOVE}
	for _, op := range all {
		ops.Add(op, namedPod("old", "p"), nil)
		ops.Add(op, namedPod("http", "p"), nil)
		ops.Add(op, namedPod("file", "p"), nil)
		ops.Add(op, namedPod("older", "p"), nil)
	}
	ops.Ready("api")
	for _, tc := range []struct {
		name    string
		sources []string
		want    []string
	}{
		{"as added", nil, []string{"old", "http", "file", "older"}},
		{"as configured", []string{"api", "file", "http"}, []string{"file", "http", "old", "older"}},
		{"by name", []string{}, []string{"file", "http", "old", "older"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want []string
			for _, op := range []string{"REMOVE", "ADD", "UPDATE", "DELETE", "RESTORE", "", "RECONCILE"} {
				if op == "" {
					want = append(want, "ADD api:")
					continue
				}
				for _, s := range tc.want {
					want = append(want, op+" "+s+": p")
				}
			}
			if diff := cmp.Diff(want, described(ops.Changes(tc.sources))); diff != "" {
				t.Errorf("order of ops (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOpsOrderWithinAnOp: the order of sources in one op doesn't affect their order in another.
func TestOpsOrderWithinAnOp(t *testing.T) {
	var ops revision.Ops
	ops.Add(revision.REMOVE, namedPod("http", "a"), nil)
	ops.Add(revision.ADD, namedPod("file", "b"), nil)
	ops.Add(revision.ADD, namedPod("http", "c"), nil)
	ops.Add(revision.ADD, namedPod("file", "d"), nil)
	want := []string{"REMOVE http: a", "ADD file: b d", "ADD http: c"}
	if diff := cmp.Diff(want, described(ops.Changes(nil))); diff != "" {
		t.Errorf("order of sources (-want +got):\n%s", diff)
	}
}

// TestOpsReady: on a source's first set, the kubelet sends the empty ADD if there are no adds, updates and
// deletes, even if there is something to remove or to reconcile.
func TestOpsReady(t *testing.T) {
	for op, want := range map[revision.Op][]string{
		revision.REMOVE: {"REMOVE file: p", "ADD file:"}, revision.ADD: {"ADD file: p"}, revision.UPDATE: {"UPDATE file: p"},
		revision.DELETE: {"DELETE file: p"}, revision.RESTORE: {"RESTORE file: p", "ADD file:"},
		revision.RECONCILE: {"ADD file:", "RECONCILE file: p"},
	} {
		var ops revision.Ops
		ops.Ready("file")
		ops.Add(op, namedPod("file", "p"), nil)
		ops.Ready("file")
		if diff := cmp.Diff(want, described(ops.Changes(nil))); diff != "" {
			t.Errorf("file becomes ready, with %s (-want +got):\n%s", op, diff)
		}
	}
	var ops revision.Ops
	ops.Add(revision.ADD, namedPod("file", "p"), nil)
	ops.Ready("api")
	if diff := cmp.Diff([]string{"ADD file: p", "ADD api:"}, described(ops.Changes(nil))); diff != "" {
		t.Errorf("api becomes ready, and file has changes (-want +got):\n%s", diff)
	}
}

// TestOpsWas: Was has the version that each pod replaces, or is nil if not all versions are known.
func TestOpsWas(t *testing.T) {
	var ops revision.Ops
	ops.Add(revision.UPDATE, namedPod("file", "a2"), namedPod("file", "a1"))
	ops.Add(revision.UPDATE, namedPod("file", "b2"), namedPod("file", "b1"))
	ops.Add(revision.DELETE, namedPod("file", "c2"), nil)
	ops.Add(revision.DELETE, namedPod("file", "d2"), namedPod("file", "d1"))
	want := []string{"UPDATE file: a2(was a1) b2(was b1)", "DELETE file: c2 d2"}
	if diff := cmp.Diff(want, described(ops.Changes(nil))); diff != "" {
		t.Errorf("what the pods replace (-want +got):\n%s", diff)
	}
}

// TestOpsNone: without ops there are no changes.
func TestOpsNone(t *testing.T) {
	var ops revision.Ops
	if got := ops.Changes([]string{"file"}); got != nil {
		t.Errorf("no ops make %v; want nil", got)
	}
}
