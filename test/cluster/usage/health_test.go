package usage

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// health is the observed health of a node.
type health struct {
	// unready are the times at which it wasn't ready.
	unready           []string
	renewals          int
	longest, duration time.Duration
}

// watchHealth watches the Node object and its lease. The returned function ends that.
func (n *node) watchHealth(t *testing.T) func() health {
	t.Helper()
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + n.Name}
	ctx, stop := context.WithCancel(t.Context())
	var h health
	var last time.Time
	var both sync.WaitGroup
	both.Go(func() {
		events(ctx, &h, n.site.Client.CoreV1().Nodes().Watch, only, func(event watch.Event) {
			if node, ok := event.Object.(*corev1.Node); ok {
				if c := nodeCondition(node, corev1.NodeReady); c == nil || c.Status != corev1.ConditionTrue || event.Type == watch.Deleted {
					h.unready = append(h.unready, fmt.Sprintf("%v %v: %+v", time.Now().Format(time.TimeOnly), event.Type, c))
				}
			}
		})
	})
	var leases health
	both.Go(func() {
		events(ctx, &leases, n.site.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Watch, only, func(event watch.Event) {
			lease, ok := event.Object.(*coordinationv1.Lease)
			if !ok || lease.Spec.RenewTime == nil {
				return
			}
			leases.duration = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
			if !last.IsZero() {
				leases.longest = max(leases.longest, lease.Spec.RenewTime.Sub(last))
			}
			last = lease.Spec.RenewTime.Time
			leases.renewals++
		})
	})
	return func() health {
		stop()
		both.Wait()
		if !last.IsZero() {
			leases.longest = max(leases.longest, time.Since(last))
		}
		leases.unready = append(leases.unready, h.unready...)
		return leases
	}
}

// events returns the objects of a watch until ctx ends, and watches again when the API server ends the watch.
// If the server refuses a watch, h has the error.
func events(
	ctx context.Context, h *health, begin func(context.Context, metav1.ListOptions) (watch.Interface, error), of metav1.ListOptions, handle func(watch.Event),
) {
	for ctx.Err() == nil {
		w, err := begin(ctx, of)
		if err != nil {
			if ctx.Err() == nil {
				h.unready = append(h.unready, fmt.Sprintf("it can't be watched: %v", err))
			}
			return
		}
		for event := range w.ResultChan() {
			handle(event)
		}
		w.Stop()
	}
}
