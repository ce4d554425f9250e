package merge

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// TestOpListOrder puts ops in, in any order, and wants the kubelet's: the empty ADD stands before RECONCILE.
func TestOpListOrder(t *testing.T) {
	var l opList
	for _, op := range []revision.Op{
		revision.RECONCILE, revision.RESTORE, revision.DELETE, revision.UPDATE, revision.ADD, revision.REMOVE,
	} {
		l.add(op, pod("http", op.String()), nil)
		l.add(op, pod("file", op.String()), nil)
	}
	l.empty = "api"
	var got []string
	for _, c := range l.changes() {
		got = append(got, c.Op.String()+" "+c.Source)
	}
	want := []string{
		"REMOVE http", "REMOVE file", "ADD http", "ADD file", "UPDATE http", "UPDATE file", "DELETE http", "DELETE file",
		"RESTORE http", "RESTORE file", "ADD api", "RECONCILE http", "RECONCILE file",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order of ops (-want +got):\n%s", diff)
	}
}

// TestOpListTellsOf: on a source's first set the kubelet sends the empty ADD where adds, updates and deletes are all empty,
// even if there is something to remove or to reconcile.
func TestOpListTellsOf(t *testing.T) {
	for op, want := range map[revision.Op]bool{
		revision.REMOVE: false, revision.ADD: true, revision.UPDATE: true, revision.DELETE: true,
		revision.RESTORE: false, revision.RECONCILE: false,
	} {
		var l opList
		l.add(op, pod("file", "p"), nil)
		if got := l.tellsOf("file"); got != want {
			t.Errorf("a list with %s of file tells of file: %v; want %v", op, got, want)
		}
		if l.tellsOf("api") {
			t.Errorf("a list with %s of file tells of api; want that it doesn't", op)
		}
	}
}

func pod(source, name string) *revision.Pod {
	return &revision.Pod{Source: source, Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}}
}
