package stats

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A failure is logged when it starts and when it ends, also if other requests succeed meanwhile.
func TestFailureIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, "v2")
	w.containerErr = errors.New("broken pipe")
	s := w.start(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for i := range 8 {
		w.clock.SetTime(began.Add(time.Duration(i) * 15 * time.Second))
		if i == 6 {
			w.containerErr = nil
		}
		ask(t, s.ResourceHandler(), "")
		ask(t, s.CadvisorHandler(), "")
	}
	text := log.String()
	if strings.Count(text, "can't all be read") != 1 || strings.Count(text, "can be read again") != 1 || strings.Count(text, "\n") != 2 {
		t.Errorf("told:\n%s", text)
	}
}
