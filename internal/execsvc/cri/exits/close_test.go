package exits

import (
	"bytes"
	"log/slog"
	"testing"
)

// A Watcher that is closed ends without an error in the log.
func TestCloseIsNoError(t *testing.T) {
	var log bytes.Buffer
	w, err := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || log.Len() > 0 {
		t.Errorf("Close: %v, and the log says %q", err, log.String())
	}
}
