package client_test

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
)

// TestHoldsVeryManyPods checks G7 for a consumer that holds more pods than a request can list: it gets its stream,
// the removals, and no op for a pod that it already holds. Pods of a source that isn't ready stay until it is (G9),
// also if the stream breaks before.
func TestHoldsVeryManyPods(t *testing.T) {
	p, d := testPlace(t), newDaemon()
	d.set("file", "a: web()")
	stop := up(t, p, d)
	first := watch(t, p, client.Config{}, client.WatchOptions{})
	kept := pods(first.want("ADD file: web"))
	first.cancel()
	const gone = 20_000
	for i := range gone {
		name := strconv.Itoa(i)
		kept = append(kept, client.Pod{UID: types.UID(name), Name: name, Namespace: "default", Source: "api", SpecDigest: "s"})
	}

	w := watch(t, p, client.Config{}, client.WatchOptions{Known: kept})
	event := func() client.Event {
		select {
		case e := <-w.events:
			return e
		case err := <-w.ended:
			t.Fatalf("Watch ended with %v", err)
		case <-time.After(deadline):
			t.Fatalf("no event in %v", deadline)
		}
		return client.Event{}
	}
	// A cursor that no podconfigd honours is one of another place: arriving there is an event of its own.
	synced := func() {
		t.Helper()
		for e := event(); !e.Synced; e = event() {
			if len(e.Ops) > 0 {
				t.Fatalf("before api is ready there are %d ops; want none, as nothing is new", len(e.Ops))
			}
		}
	}
	synced()
	stop()
	up(t, p, d)
	synced()
	d.set("api", "")
	e := event()
	if len(e.Ops) == 0 || e.Ops[0].Op != client.Remove || e.Ops[0].Source != "api" || len(e.Ops[0].Pods) != gone {
		t.Fatalf("once api is ready there are %d ops; want the REMOVE of its %d pods first", len(e.Ops), gone)
	}
	// Now the cursor says all.
	d.set("file", "a: web(image=2)")
	w.want("UPDATE file: web")
}
