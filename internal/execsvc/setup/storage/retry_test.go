package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDriverIsThereAgain: a volume whose driver wasn't there for a long time is undone, and made, as soon as it is there. Another driver's
// registration changes nothing.
func TestDriverIsThereAgain(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		n.stop()
		away := &Error{NotSent, errors.New("not registered")}
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "unpublish") {
				return away
			}
			return nil
		})
		n = start(t, dir, d, func(c *Config) { c.Boot = "another" })
		time.Sleep(30 * time.Minute) // The pauses are the longest now.
		d.answer(nil)
		d.called()
		began := time.Now()
		n.Retry(func(string) bool { return false })
		n.expect()
		n.Retry(func(driver string) bool { return driver == "d" })
		n.mustSetUp(pod("u1", "h"))
		if took := time.Since(began); took > 0 {
			t.Errorf("the pod waited for %v after its driver had registered", took)
		}
		n.mustTearDown("u1")
		n.empty()
	})
}
