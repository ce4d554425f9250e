package image

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/logtest"
)

// Repeated pulls of an unchanged image are logged once; at debug level, each time.
func TestSamePullIsLoggedOnce(t *testing.T) {
	for level, perPull := range map[slog.Level]int{slog.LevelInfo: 0, slog.LevelDebug: 2} {
		var log logtest.Buffer
		s := newSim(t, Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		p := pod("1", "Always sim/app:1")
		for i := range 3 {
			s.want(p, 0, "pulling")
			s.wantDone(p)
			s.want(p, 0, "present")
			s.Used(p.UID, p.Spec.Containers[0].Name)
			if want := 2 + i*perPull; log.Count() != want {
				t.Errorf("at level %s %d lines after %d pulls; want %d", level, log.Count(), i+1, want)
			}
		}
		if !strings.Contains(log.String(), "level=INFO msg=\"pulled image\"") {
			t.Errorf("the first pull isn't told:\n%s", log.String())
		}
	}
}
