package removals

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
)

// TestNoMinuteHasMore: in no minute are more pods ended than the limit, whenever the stream removes them.
func TestNoMinuteHasMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, pods = 5, 60
		n := start(t, limit, pods)
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // It makes no secret.
		for i := range pods {
			n.op(uint64(i+1), client.Remove, fmt.Sprint("p", i))
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
		}
		time.Sleep(time.Hour)
		n.mu.Lock()
		defer n.mu.Unlock()
		var at []time.Duration
		for _, line := range n.log {
			when, what, _ := strings.Cut(line, " ")
			if d, err := time.ParseDuration(when); err == nil && strings.HasPrefix(what, "REMOVE") {
				at = append(at, d)
			}
		}
		if len(at) != pods {
			t.Fatalf("%d pods are removed after an hour; want all %d", len(at), pods)
		}
		for i := limit; i < len(at); i++ {
			if took := at[i] - at[i-limit]; took < 59*time.Second { // The log has whole seconds.
				t.Errorf("%d pods are removed within %v, at %v", limit+1, took, at[i-limit:i+1])
			}
		}
	})
}

// TestRestartDoesNotRenewTheLimit: removals of the minute before the start count, also if the clock was set back since.
func TestRestartDoesNotRenewTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().Round(0)
		n := start(t, 3, 4, now.Add(-2*time.Minute), now.Add(-40*time.Second), now.Add(-10*time.Second), now.Add(time.Hour))
		n.op(1, client.Remove, "p0", "p1", "p2", "p3")
		n.want("0s held p0", "0s held p1", "0s held p2", "0s held p3")
		time.Sleep(21 * time.Second)
		n.want("20s REMOVE p0")
		n.mu.Lock()
		if len(n.counted) != 3 {
			t.Errorf("the times that are stored are %v; want 3", n.counted)
		}
		n.mu.Unlock()
		time.Sleep(40 * time.Second)
		n.want("50s REMOVE p1", "1m0s REMOVE p2")
		// With a lower limit than before.
		n = start(t, 1, 1, now.Add(30*time.Second), now.Add(40*time.Second))
		n.op(1, client.Remove, "p0")
		n.want("0s held p0")
		time.Sleep(40 * time.Second)
		n.want("39s REMOVE p0")
	})
}

// TestHeldDeletionStays: a RECONCILE of a pod whose deletion is held doesn't take the deletion's place: it ends no pod.
func TestHeldDeletionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 1, 4)
		n.op(1, client.Delete, "p0", "p1")
		n.op(2, client.Remove, "p2")
		n.want("0s held p1", "0s DELETE p0", "0s held p2")
		// The pods are in the stream still, or again, and being deleted.
		c := client.Change{Op: client.Reconcile}
		for _, uid := range []types.UID{"p1", "p2", "p3"} {
			c.Pods = append(c.Pods, client.Pod{UID: uid, Object: &v1.Pod{}})
			c.Pods[len(c.Pods)-1].Object.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		if err := n.gate.Deliver(t.Context(), client.Event{Ops: []client.Change{c}}); err != nil {
			t.Error(err)
		}
		time.Sleep(4 * time.Minute)
		n.want("0s held p3", "1m0s DELETE p1", "2m0s UPDATE p2", "3m0s UPDATE p3")
	})
}

// TestReadinessPasses: the readiness of a source isn't held with the pods of its op, and a removal that is passed on later
// doesn't bring back the readiness of its time.
func TestReadinessPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 1, 3)
		deliver := func(e client.Event) {
			t.Helper()
			if err := n.gate.Deliver(t.Context(), e); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		want := func(when string, ready bool) {
			t.Helper()
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.ready["api"] != ready {
				t.Errorf("%s: api's readiness is %v; want %v", when, !ready, ready)
			}
		}
		remove := func(ready bool, uids ...string) client.Event {
			c := client.Change{Op: client.Remove, Source: "api", SourceReady: ready}
			for _, uid := range uids {
				c.Pods = append(c.Pods, client.Pod{UID: types.UID(uid)})
			}
			return client.Event{Ops: []client.Change{c}}
		}
		deliver(remove(false, "p0"))
		deliver(remove(true, "p1"))
		want("all pods of the op are held", true)
		deliver(client.Event{Synced: true, Sources: []client.Source{{Name: "api"}}})
		n.mu.Lock()
		n.ready["api"] = false
		n.mu.Unlock()
		time.Sleep(61 * time.Second)
		want("the removal is passed on, and the source isn't ready since", false)
	})
}

// TestEndedPodsDontWait: the removal of a pod that has ended by itself waits for no removal before it.
func TestEndedPodsDontWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 1, 4)
		n.op(1, client.Remove, "p0", "p1", "p2", "p3")
		n.want("0s held p1", "0s held p2", "0s held p3", "0s REMOVE p0")
		n.mu.Lock()
		n.pods["p3"] = false
		n.mu.Unlock()
		time.Sleep(61 * time.Second)
		n.want("1m0s REMOVE p3", "1m0s REMOVE p1")
	})
}

// TestLenDoesNotWait: the number of held removals is there while an event is being passed on.
func TestLenDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 1, 0)
		begun, goOn := make(chan struct{}), make(chan struct{})
		n.gate.cfg.Next = func(context.Context, client.Event) error {
			close(begun)
			<-goOn
			return nil
		}
		done := make(chan error)
		go func() { done <- n.gate.Deliver(t.Context(), client.Event{}) }()
		<-begun
		if got := n.gate.Len(); got != 0 { // With the Gate's lock this is a deadlock.
			t.Errorf("%d are held", got)
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestOnePodCountsOnce: a pod that an event ends twice, or ends and adds again, counts once, and isn't held.
func TestOnePodCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 2, 3)
		of := func(op client.Op, uid types.UID, phase v1.PodPhase) client.Change {
			p := client.Pod{UID: uid}
			if op != client.Remove {
				p.Object = &v1.Pod{Status: v1.PodStatus{Phase: phase}}
			}
			return client.Change{Op: op, Pods: []client.Pod{p}}
		}
		err := n.gate.Deliver(t.Context(), client.Event{Ops: []client.Change{
			of(client.Delete, "p0", ""), of(client.Remove, "p0", ""), of(client.Remove, "p1", ""), of(client.Add, "p1", v1.PodFailed), of(client.Remove, "p2", ""),
		}})
		if err != nil {
			t.Error(err)
		}
		n.want("0s held p2", "0s DELETE p0", "0s REMOVE p0", "0s REMOVE p1", "0s ADD p1")
	})
}
