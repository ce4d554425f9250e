package podview

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestAwaitEnd: it ends with the pod, however that ends, and not with changes of it or of others.
func TestAwaitEnd(t *testing.T) {
	for name, end := range map[string]func(b *Board){
		"removed": func(b *Board) { b.Remove("1") },
		"failed": func(b *Board) {
			p := shown("1")
			p.Status = &v1.PodStatus{Phase: v1.PodFailed}
			b.Set(p)
		},
	} {
		b := New()
		b.Set(shown("1"))
		ended := make(chan bool, 1)
		go func() { ended <- AwaitEnd(t.Context(), b, "1") }()
		for _, uid := range []string{"2", "3"} {
			p := shown("2")
			p.Name = uid
			b.Set(p)
		}
		p := shown("1")
		p.WaitsFor = "another pull"
		b.Set(p)
		select {
		case <-ended:
			t.Errorf("%s: it has ended before", name)
		default:
		}
		end(b)
		if !<-ended {
			t.Errorf("%s: it isn't reported", name)
		}
		if !AwaitEnd(t.Context(), b, "1") {
			t.Errorf("%s: afterwards it isn't reported", name)
		}
	}
	b := New()
	b.Set(shown("1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if AwaitEnd(ctx, b, "1") {
		t.Error("the end of its context counts as the pod's")
	}
}
