package nodecert

import (
	"context"
	"log/slog"
	"sync"
)

// trouble tells of one when it begins, when it becomes another, and when it ends.
type trouble struct {
	log *slog.Logger

	mu  sync.Mutex
	now string
}

// is says what is wrong. what tells troubles apart, and err, whose words may change with each try, doesn't.
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

// over says that all is well.
func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != "" {
		t.log.Info("it is well again", "trouble", t.now)
		t.now = ""
	}
}
