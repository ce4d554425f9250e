package csivolume

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// foreign is a file system whose groups are changed.
type foreign struct {
	started chan struct{}
	// release lets a system call return.
	release chan struct{}
	// deaf: a system call doesn't end with its context.
	deaf bool
}

func (f *foreign) set(ctx context.Context, _ ownership.Request) error {
	f.started <- struct{}{}
	if f.deaf {
		<-f.release
		return nil
	}
	select {
	case <-f.release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inGroups runs a test with changes whose limit is an hour.
func inGroups(t *testing.T, places int, test func(t *testing.T, g *groups, f *foreign)) {
	synctest.Test(t, func(t *testing.T) {
		f := &foreign{started: make(chan struct{}, 100), release: make(chan struct{})}
		g := newGroups(nodefs.New(nodefs.Config{Timeout: time.Hour, Places: places}), f.set)
		defer g.close()
		test(t, g, f)
	})
}

// within calls change with a context that ends after a while.
func within(t *testing.T, g *groups, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return g.change(ctx, nodefs.Pod{UID: "a"}, ownership.Request{Dir: "/volume", Group: 1})
}

// TestLongChange: the change of a large volume continues between the calls that wait for it, and is made once.
func TestLongChange(t *testing.T) {
	inGroups(t, 4, func(t *testing.T, g *groups, f *foreign) {
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

// TestStopChange: Unpublish ends a change, and waits until it makes no system call any more.
func TestStopChange(t *testing.T) {
	inGroups(t, 4, func(t *testing.T, g *groups, _ *foreign) {
		_ = within(t, g, time.Second)
		began := time.Now()
		g.stop(t.Context(), "/volume")
		if took := time.Since(began); took > 0 || len(g.running) > 0 {
			t.Errorf("it took %v, and %d changes are left", took, len(g.running))
		}
		g.stop(t.Context(), "/volume")
	})
}

// TestHungChange: a file system that doesn't answer delays the end of its volume for a while, and doesn't prevent it. The
// goroutines that are left behind are bounded.
func TestHungChange(t *testing.T) {
	const places = 4
	inGroups(t, places, func(t *testing.T, g *groups, f *foreign) {
		f.deaf = true
		for n := 0; ; n++ {
			err := within(t, g, time.Second)
			if n > 0 && err != nil && strings.Contains(err.Error(), "can't be looked at") {
				break
			}
			if n == places || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("change %d: %v", n, err)
			}
			began := time.Now()
			g.stop(t.Context(), "/volume")
			if took := time.Since(began); took != stopLimit {
				t.Errorf("it took %v; want %v", took, stopLimit)
			}
		}
		began := time.Now()
		g.stop(t.Context(), "/volume")
		if took := time.Since(began); took > 0 {
			t.Errorf("a change that wasn't started is waited for: %v", took)
		}
		g.close()
		if err := within(t, g, time.Second); !errors.Is(err, errClosed) {
			t.Error(err)
		}
		close(f.release)
	})
}

// TestChangeLimit: a change that takes too long is an error. It ends, if its file system answers.
func TestChangeLimit(t *testing.T) {
	for _, deaf := range []bool{true, false} {
		inGroups(t, 4, func(t *testing.T, g *groups, f *foreign) {
			if f.deaf = deaf; deaf {
				defer close(f.release)
			}
			if err := within(t, g, 2*time.Hour); !errors.Is(err, nodefs.ErrNoAnswer) {
				t.Error(err)
			}
		})
	}
}
