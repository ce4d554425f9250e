package webtest

import (
	"testing"
	"time"
)

// Await waits until ok reports true. changed is a channel with a buffer of one that gets a value after each change, as the
// followers of package feed do; nil looks again and again.
func Await(t testing.TB, what string, changed <-chan struct{}, ok func() bool) {
	t.Helper()
	late := time.After(Deadline)
	var tick <-chan time.Time
	if changed == nil {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		tick = ticker.C
	}
	for !ok() {
		select {
		case <-changed:
		case <-tick:
		case <-late:
			t.Fatalf("%s: not within %v", what, Deadline)
		}
	}
}
