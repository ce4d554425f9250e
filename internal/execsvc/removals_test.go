package execsvc

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// TestMaxRemovals: a stream that removes all pods ends as many as the bound allows. The others run on, with an event and in
// the metric, also after a restart of podexecd; those that the stream has again are never ended.
func TestMaxRemovals(t *testing.T) {
	n := newNode(t)
	n.maxRemovals = 2
	l := n.start()
	var pods []*v1.Pod
	ids := map[types.UID]string{}
	for i := range 5 {
		pod := newPod(types.UID(fmt.Sprint("uid-", i)), fmt.Sprint("p", i), "api")
		pods = append(pods, pod)
		l.deliver(ops(change(client.Add, true, pod)))
	}
	for _, pod := range pods {
		ids[pod.UID] = l.awaitRunning(pod.UID)
	}
	l.deliver(ops(change(client.Remove, true, pods...)))
	l.awaitGone(pods[0].UID)
	l.awaitGone(pods[1].UID)
	held := pods[2:]
	check := func(l *testAgent) {
		t.Helper()
		for _, pod := range held {
			if got := l.awaitRunning(pod.UID); got != ids[pod.UID] {
				t.Errorf("pod %s runs in container %s; want %s", pod.Name, got, ids[pod.UID])
			}
		}
	}
	check(l)
	if got := l.removals.Len(); got != len(held) {
		t.Errorf("%d removals are held; want %d", got, len(held))
	}
	all, _, _ := l.events.After(0)
	count := 0
	for _, e := range all {
		if e.Reason == events.RemovalHeld {
			count++
		}
	}
	if count != len(held) {
		t.Errorf("%d events RemovalHeld; want %d", count, len(held))
	}
	l.deliver(ops(change(client.Add, true, held[0])))
	store := l.store
	l.stop()

	l = n.startFrom(store)
	check(l)
	// The stream compares all pods, as the cursor has no revision, and has the second one again.
	l.ahead.Store(int64(2 * time.Minute))
	l.deliver(ops(change(client.Restore, true, held[0], held[1]), change(client.Remove, true, held[2])))
	l.awaitGone(held[2].UID)
	held = held[:2]
	l.housekeep()
	check(l)
}
