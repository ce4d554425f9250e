package podconfigd

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// logLines is a log that can be awaited.
type logLines struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func newLog() *logLines { return &logLines{wrote: make(chan struct{}, 1)} }

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await returns when the text has been logged so many times.
func (l *logLines) await(t *testing.T, text string, times int) {
	t.Helper()
	for strings.Count(l.String(), text) < times {
		select {
		case <-l.wrote:
		case <-t.Context().Done():
			t.Fatalf("%q isn't logged %d times:\n%s", text, times, l)
		}
	}
}
