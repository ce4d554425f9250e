package directory

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// TestLongChange: the change of a large directory to the pod's group continues after the call that began it, and is made
// once, also if another pod has the directory meanwhile. Unpublish ends it.
func TestLongChange(t *testing.T) {
	begun, end, causes := make(chan ownership.Request, 10), make(chan struct{}), make(chan error, 1)
	b := &Backend{foreign.NewGroups(func(ctx context.Context, _ string, r ownership.Request) error {
		begun <- r
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		}
	})}
	t.Cleanup(b.Close)
	d, c := New(filepath.Join(t.TempDir(), "claims")), Claim{"default", "data"}
	must(t, d.Create(c))
	group := int64(4242)
	p, other := b.published(t, d, c, &group), b.published(t, d, c, &group)
	publish := func() {
		t.Helper()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Publish(ended, p); storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), "still being changed") {
			t.Fatalf("%v (outcome %d)", err, storage.OutcomeOf(err))
		}
	}
	publish()
	if r := <-begun; r.Dir != b.MountPoint(p.Dir) || r.Group != group {
		t.Errorf("%+v", r)
	}
	publish()
	must(t, b.Publish(t.Context(), other))
	publish()
	close(end)
	must(t, b.Publish(t.Context(), p))
	if n := len(begun); n > 0 {
		t.Errorf("it was begun %d times more", n)
	}
	must(t, b.Unpublish(t.Context(), other))
	end = make(chan struct{})
	publish()
	<-begun
	must(t, b.Unpublish(t.Context(), p))
	if err := <-causes; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("it was ended by %v", err)
	}
}
