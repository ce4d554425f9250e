package node

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (a *apiServer) leases(method string, body []byte) *http.Response {
	if method == http.MethodGet && a.lease == nil {
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "leases \"n1\" not found")
	}
	if method == http.MethodPut && a.leaseConflicts > 0 {
		a.leaseConflicts--
		return failure(http.StatusConflict, metav1.StatusReasonConflict, "the lease has been modified")
	}
	if method != http.MethodGet {
		a.lease = &coordinationv1.Lease{}
		a.must(json.Unmarshal(body, a.lease))
		a.renewed = append(a.renewed, a.lease.Spec.RenewTime.Time)
	}
	return a.answer(a.lease)
}

// A lease that another client has changed is read again and renewed at once. After five conflicts the next attempt is the
// last one of the interval.
func TestLeaseConflicts(t *testing.T) {
	for conflicts, reads := range map[int]int{1: 1, renewTries: renewTries + 1} {
		inWorld(t, func(t *testing.T, w *world) {
			w.run(t)
			pass(time.Minute)
			w.api.mu.Lock()
			w.api.leaseConflicts, w.api.renewed = conflicts, nil
			w.api.calls = nil
			w.api.mu.Unlock()
			pass(10*time.Second + time.Duration(renewJitter*float64(10*time.Second)))
			w.api.mu.Lock()
			calls := strings.Join(w.api.calls, ", ")
			w.api.mu.Unlock()
			_, renewed := w.api.held()
			if got := strings.Count(calls, "GET lease"); len(renewed) == 0 || got != reads {
				t.Errorf("after %d conflicts: the lease was read %d times and renewed at %v, by %s; want %d reads", conflicts, got, renewed, calls, reads)
			}
		})
	}
}
