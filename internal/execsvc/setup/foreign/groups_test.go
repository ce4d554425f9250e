package foreign

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// fileSystem is a file system whose groups are changed.
type fileSystem struct {
	started chan struct{}
	// release lets a change end.
	release chan struct{}
}

func (f *fileSystem) set(ctx context.Context, _ string, _ ownership.Request) error {
	f.started <- struct{}{}
	select {
	case <-f.release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inGroups runs a test with changes.
func inGroups(t *testing.T, test func(t *testing.T, g *Groups, f *fileSystem)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fileSystem{started: make(chan struct{}, 100), release: make(chan struct{})}
		g := NewGroups(f.set)
		defer g.Close()
		test(t, g, f)
	})
}

// within calls change with a context that ends after a while.
func within(t *testing.T, g *Groups, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return g.Change(ctx, "volume", ownership.Request{Dir: "/volume", Group: 1})
}

// TestLongChange: the change of a large volume continues between the calls that wait for it, and is made once.
func TestLongChange(t *testing.T) {
	inGroups(t, func(t *testing.T, g *Groups, f *fileSystem) {
		for range 3 {
			if err := within(t, g, 2*time.Minute); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "still being changed") {
				t.Errorf("%v", err)
			}
		}
		close(f.release)
		synctest.Wait()
		if err := within(t, g, time.Second); err != nil || len(f.started) != 1 {
			t.Errorf("%v after %d changes; want one", err, len(f.started))
		}
		// The next publication is changed again.
		if err := within(t, g, time.Second); err != nil || len(f.started) != 2 {
			t.Errorf("%v after %d changes; want two", err, len(f.started))
		}
	})
}

// TestStopChange: Unpublish ends a change, and waits until it has ended.
func TestStopChange(t *testing.T) {
	inGroups(t, func(t *testing.T, g *Groups, _ *fileSystem) {
		_ = within(t, g, time.Second)
		began := time.Now()
		g.Stop(t.Context(), "/volume")
		if took := time.Since(began); took > 0 || len(g.running) > 0 {
			t.Errorf("it took %v, and %d changes are left", took, len(g.running))
		}
		g.Stop(t.Context(), "/volume")
	})
}

// TestChangeLimit: a change that takes too long is an error, and ends.
func TestChangeLimit(t *testing.T) {
	inGroups(t, func(t *testing.T, g *Groups, _ *fileSystem) {
		if err := within(t, g, 2*changeLimit); err == nil || !strings.Contains(err.Error(), "longer than 1h") {
			t.Error(err)
		}
	})
}

// TestClosedGroups: after close no change is started.
func TestClosedGroups(t *testing.T) {
	inGroups(t, func(t *testing.T, g *Groups, f *fileSystem) {
		g.Close()
		if err := within(t, g, time.Second); !errors.Is(err, ErrClosed) || len(f.started) > 0 {
			t.Errorf("%v after %d changes", err, len(f.started))
		}
	})
}
