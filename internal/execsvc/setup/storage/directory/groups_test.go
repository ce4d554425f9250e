package directory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
	other.KeepsGroup = true
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

// TestInterruptedChange: a change to the pod's group that a restart has ended is made by the next call, also if another pod has the directory.
func TestInterruptedChange(t *testing.T) {
	d, c := New(filepath.Join(t.TempDir(), "claims")), Claim{"default", "data"}
	must(t, d.Create(c))
	file, group := filepath.Join(d.Path(c), "file"), int64(4242)
	must(t, os.WriteFile(file, nil, 0o600))
	before := &Backend{foreign.NewGroups(func(context.Context, string, ownership.Request) error { return foreign.ErrClosed })}
	p, other := before.published(t, d, c, &group), before.published(t, d, c, nil)
	if err := before.Publish(t.Context(), p); storage.OutcomeOf(err) != storage.Uncertain {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	must(t, before.Publish(t.Context(), other))
	before.Close()
	must(t, backend(t).Publish(t.Context(), p))
	var st unix.Stat_t
	must(t, unix.Stat(file, &st))
	if int64(st.Gid) != group {
		t.Errorf("the file has group %d", st.Gid)
	}
}
