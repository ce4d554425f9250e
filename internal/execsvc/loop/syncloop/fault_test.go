//go:build failpoints

package syncloop

import (
	"testing"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestFaultOfLoop: the fault of the watchdog's test hangs the loop at its next housekeeping.
func TestFaultOfLoop(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		disable := failpoint.Enable(failpoint.BlockSyncLoop)
		h.wantPulse("before the housekeeping", true)
		h.clock.Step(time.Hour)
		h.wantPulse("at the housekeeping", false)
		disable()
		h.wantPulse("without the fault", true)
	})
}
