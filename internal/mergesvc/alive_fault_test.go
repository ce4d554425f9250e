//go:build failpoints

package mergesvc

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestFaultsOfLocks: the faults of the watchdog's tests hang a running Hub.
func TestFaultsOfLocks(t *testing.T) {
	for fault, want := range map[failpoint.Name]error{failpoint.HoldHubLock: errMergeStuck, failpoint.HoldPublishing: errPublishStuck} {
		h := NewHub(Config{RetryStore: time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.Run(ctx)
		}()
		disable := failpoint.Enable(fault)
		stuck := 0
		for begin := time.Now(); stuck < 3; {
			if err := h.Alive(ctx); errors.Is(err, want) {
				stuck++
			}
			if time.Since(begin) > 20*time.Second {
				t.Fatalf("%s: Alive never returns %v", fault, want)
			}
		}
		disable()
		for begin := time.Now(); h.Alive(ctx) != nil; {
			if time.Since(begin) > 20*time.Second {
				t.Fatalf("%s: Alive fails after its end", fault)
			}
		}
		cancel()
		<-ended
	}
}
