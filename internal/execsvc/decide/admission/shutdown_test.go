package admission

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
)

// A pod that was admitted before the restart isn't rejected under pressure. During a shutdown it is; one that runs isn't.
func TestShutdownRejectsRestoredPods(t *testing.T) {
	for reason, rejected := range map[string]bool{admit.Evicted: false, admit.NodeShutdown: true} {
		pod := sized("a", 1, "1", "1Mi")
		q := New(Config{Restored: map[types.UID]resize.Allocation{"a": resize.AllocationOf(pod)}})
		s := Snapshot{Pressure: func(*v1.Pod) (admit.Rejection, bool) { return admit.Rejection{Reason: reason, Transient: true}, true }}
		if _, v := q.Check(pod, s, false, nil); (len(v.Rejected) > 0) != rejected {
			t.Errorf("%s: a restored pod gets %+v; want it rejected: %v", reason, v.Rejected, rejected)
		}
		if _, v := q.Check(sized("b", 1, "1", "1Mi"), s, true, nil); len(v.Rejected) > 0 {
			t.Errorf("%s: a running pod is rejected: %+v", reason, v.Rejected)
		}
	}
}
