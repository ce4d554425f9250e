package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// registering is a backend whose driver comes and goes.
type registering struct {
	*truth
	away atomic.Bool
}

var errAway = errors.New("not registered")

// IsAway is part of Registers.
func (r *registering) IsAway(_ string, last error) bool {
	return errors.Is(last, errAway) && r.away.Load()
}

// TestAwayDriver: while a driver isn't registered, the record of a volume that waits for it isn't written again, whatever has the call
// repeated. The pod's error stays the same, and the calls go on when the driver is there.
func TestAwayDriver(t *testing.T) {
	for _, word := range []string{"stage", "unpublish"} {
		t.Run(word, func(t *testing.T) {
			dir, d := t.TempDir(), &registering{truth: newTruth()}
			synctest.Test(t, func(t *testing.T) {
				n := start(t, dir, d.truth, func(c *Config) { c.Backends = map[string]Backend{"b": d} })
				step := func() error { return n.setUp(pod("u1", "h")) }
				if word == "unpublish" {
					n.mustSetUp(pod("u1", "h"))
					step = func() error { return n.manager.TearDown(t.Context(), "u1") }
				}
				d.answer(func(_ context.Context, call string) error {
					if strings.HasPrefix(call, word+" ") {
						return &Error{NotSent, errAway}
					}
					return nil
				})
				d.away.Store(true)
				first := step()
				if !errors.Is(first, errAway) {
					t.Fatalf("the error is %v", first)
				}
				before, calls := recordOf(t, dir), len(d.called())
				for range 20 {
					n.Retry(func(string) bool { return true }) // It has come, and has gone by now.
					time.Sleep(time.Minute)
				}
				if again := step(); again == nil || again.Error() != first.Error() {
					t.Errorf("the error is %v; want %v", again, first)
				}
				if after := recordOf(t, dir); !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
					t.Errorf("the record is written again, at %v", after.ModTime())
				}
				if more := withoutWaits(d.called()); len(more) > 0 {
					t.Errorf("after %d calls there are %v", calls, more)
				}
				d.answer(nil)
				d.away.Store(false)
				time.Sleep(2 * maxPause)
				if err := step(); err != nil {
					t.Error(err)
				}
				n.mustTearDown("u1")
				n.empty()
			})
		})
	}
}

// recordOf returns the one record's file.
func recordOf(t *testing.T, dir string) os.FileInfo {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "volumes", "*.json"))
	if err != nil || len(names) != 1 {
		t.Fatalf("the records are %v, %v", names, err)
	}
	info, err := os.Lstat(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return info
}
