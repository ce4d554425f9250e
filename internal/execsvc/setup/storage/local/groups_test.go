package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// TestLongChange: a pod waits for the change of the volume to its group, also if another pod has the volume meanwhile.
func TestLongChange(t *testing.T) {
	b := newBench(t)
	begun, end := make(chan struct{}, 2), make(chan struct{})
	b.groups = foreign.NewGroups(func(ctx context.Context, _ string, _ ownership.Request) error {
		begun <- struct{}{}
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	_, p := b.resolved("u1", ptr.To[int64](4711), false)
	_, other := b.resolved("u2", ptr.To[int64](4712), false)
	other.KeepsGroup = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Publish(ctx, p) }()
	select {
	case <-begun:
	case err := <-done:
		t.Fatalf("no change was begun: %v", err)
	}
	cancel()
	if err := <-done; storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), "still being changed") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	must(t, b.Publish(t.Context(), other))
	close(end)
	must(t, b.Publish(t.Context(), p))
	if b.groups.Has(p.Dir) || len(begun) > 0 {
		t.Error("the pod's volume was published without a wait for the change")
	}
}

// TestInterruptedChange: a change to the pod's group that a restart has ended is made by the next call, also if another pod has the volume.
func TestInterruptedChange(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.pv.Spec.Local.Path, "file")
	must(t, os.WriteFile(file, []byte("data"), 0o600))
	_, p := b.resolved("u1", ptr.To[int64](4711), false)
	_, other := b.resolved("u2", nil, false)
	helpers := b.groups
	b.groups = foreign.NewGroups(func(context.Context, string, ownership.Request) error { return foreign.ErrClosed })
	if err := b.Publish(t.Context(), p); storage.OutcomeOf(err) != storage.Uncertain {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	b.groups.Close()
	must(t, b.Publish(t.Context(), other))
	b.groups = helpers // As after a restart.
	must(t, b.Publish(t.Context(), p))
	if got := group(t, file); got != 4711 {
		t.Errorf("the file has group %d", got)
	}
}
