package systemd_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestFaults: systemd restarts a daemon whose main part hangs while its other goroutines run, and no container.
func TestFaults(t *testing.T) {
	write(t, "calm", manifest("calm", plain))
	before := awaitRunning(t, "calm")
	for _, tc := range []struct {
		unit, program string
		fault         failpoint.Name
	}{
		{podexecd, "podexecd $PODEXECD_FLAGS", failpoint.BlockSyncLoop},
		{podconfigd, "podconfigd $PODCONFIGD_FLAGS", failpoint.HoldHubLock},
		{podconfigd, "podconfigd $PODCONFIGD_FLAGS", failpoint.HoldPublishing},
	} {
		t.Run(string(tc.fault), func(t *testing.T) {
			began := time.Now()
			undo := dropIn(t, tc.unit, "WatchdogSec=3", "ExecStart=", "ExecStart="+share+"/faults/"+tc.program,
				"Environment="+failpoint.Variable+"="+string(tc.fault))
			must(t, "systemctl", "restart", tc.unit)
			first, err := strconv.Atoi(show(t, tc.unit, "NRestarts"))
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "systemd restarts "+tc.unit, func() error {
				if n, err := strconv.Atoi(show(t, tc.unit, "NRestarts")); err != nil || n < first+2 {
					return fmt.Errorf("it has restarted it %d times before and %d in all, %w", first, n, err)
				}
				return nil
			})
			journal := must(t, "journalctl", "--no-pager", "-o", "cat", "-u", tc.unit, fmt.Sprintf("--since=@%d", began.Unix()))
			for _, line := range []string{"Watchdog timeout", "no progress", "goroutine "} {
				if !strings.Contains(journal, line) {
					t.Errorf("the journal lacks %q", line)
				}
			}
			wantSame(t, "while systemd restarts "+tc.unit, before)
			undo()
			must(t, "systemctl", "restart", tc.unit)
			awaitActive(t, tc.unit)
			awaitStatus(t, podexecd, "running; pods: ")
			wantSame(t, "after that", before)
		})
	}
}
