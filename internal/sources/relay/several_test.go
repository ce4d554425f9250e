package relay

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
)

// TestSeveralUpstreams: of two upstreams, pods and objects come from the same one. When that fails, both come from the
// other; a pod that exists at both isn't removed meanwhile.
func TestSeveralUpstreams(t *testing.T) {
	for _, order := range []client.Order{client.Listed, client.Random} {
		t.Run(string(order), func(t *testing.T) { testSeveralUpstreams(t, order) })
	}
}

func testSeveralUpstreams(t *testing.T, order client.Order) {
	var both [2]*podconfigd
	for i := range both {
		both[i] = startObjects(t, socket(t), 0, "file")
		both[i].id = string(rune('a' + i))
		both[i].give("file", "c1", "c1=one")
		both[i].up()
	}
	s, err := New(Config{
		Endpoint: both[0].endpoint + "," + both[1].endpoint, Order: order, ID: "own-id", Node: "own-node", Backoff: quick,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	wanted, values, sets := make(chan []sources.ObjectKey, 1), make(chan string, 100), make(chan manifest.Set, 100)
	wanted <- []sources.ObjectKey{key("c1")}
	inBackground(t, func(ctx context.Context) error { return s.Run(ctx, func(m manifest.Set) { sets <- m }) })
	inBackground(t, func(ctx context.Context) error {
		return s.RunObjects(ctx, wanted, func(_ sources.ObjectKey, o *manifest.Object) { values <- o.ConfigMap.Data["k"] })
	})
	receive(t, values, func(v string) bool { return v == "one" })
	pod := func(m manifest.Set) bool {
		if m.Err == nil && origins(m) != "file default/file pod-file" {
			t.Errorf("the origins are %s; want the pod always", origins(m))
		}
		return m.Err == nil
	}
	receive(t, sets, pod)
	at := 0
	if len(both[0].requests) == 0 {
		at = 1
	}
	first, second := both[at], both[1-at]
	if len(first.wishes) == 0 || len(second.requests) != 0 || len(second.wishes) != 0 {
		t.Fatalf("one upstream has %d streams of objects, the other %d and %d streams; want all at the first",
			len(first.wishes), len(second.requests), len(second.wishes))
	}
	second.give("file", "c1", "c1=two")
	first.down()
	receive(t, values, func(v string) bool { return v == "two" })
	receive(t, sets, func(m manifest.Set) bool { return m.Err != nil })
	receive(t, sets, pod)
	if len(second.requests) == 0 {
		t.Error("the pods aren't those of the second upstream")
	}
}

// receive waits for a value that is wanted.
func receive[V any](t *testing.T, values <-chan V, wanted func(V) bool) {
	t.Helper()
	for late := time.After(deadline); ; {
		select {
		case v := <-values:
			if wanted(v) {
				return
			}
		case <-late:
			t.Fatalf("the value doesn't come within %v", deadline)
		}
	}
}
