package nodecert

import (
	"context"
	"log/slog"
	"sync"
)

// trouble logs a lasting failure when it begins, when it becomes another one, and when it ends.
type trouble struct {
	log *slog.Logger

	mu  sync.Mutex
	now string
}

// is records a failure. what identifies it; err, whose text may change with each attempt, doesn't.
func (t *trouble) is(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	level := slog.LevelWarn
	if t.now == what {
		level = slog.LevelDebug
	}
	t.now = what
	t.log.Log(context.Background(), level, what, "error", err) //nolint:sloglint // Callers give constants.
}

// over records success.
func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != "" {
		t.log.Info("the failure is over", "trouble", t.now)
		t.now = ""
	}
}
