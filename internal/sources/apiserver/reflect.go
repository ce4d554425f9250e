package apiserver

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// reflect keeps the store in step with the server, until ctx ends. example is an object of the type.
func (s *Source) reflect(ctx context.Context, r *reader, example runtime.Object, store cache.ReflectorStore) {
	ctx, logger := s.quietly(ctx)
	backoff := s.backoff
	r.clock, r.pace, r.silence = s.cfg.Clock, rate.NewLimiter(s.pace, watchBurst), s.silence
	reflector := cache.NewReflectorWithOptions(
		&cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}, example, store,
		cache.ReflectorOptions{
			Name: Name + " " + r.resource, Logger: &logger, Backoff: &backoff,
			Clock: endingClock{WithTicker: s.cfg.Clock, done: ctx.Done()},
		})
	reflector.RunWithContext(ctx)
}

// endingClock is a clock whose After fires as soon as done is closed: a reflector's backoff waits for nothing else,
// and would delay its end.
type endingClock struct {
	clock.WithTicker
	done <-chan struct{}
}

// After fires after d, or once done is closed.
func (c endingClock) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	timer := c.NewTimer(d)
	go func() {
		defer timer.Stop()
		select {
		case now := <-timer.C():
			fired <- now
		case <-c.done:
			fired <- c.Now()
		}
	}()
	return fired
}

// debugHandler logs everything at debug level: client-go logs each attempt that fails, even as an error. The Source
// reports failures once.
type debugHandler struct{ to slog.Handler }

// Enabled leaves out what client-go itself logs for debugging (V(4) and more).
func (h debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level > slog.LevelDebug && h.to.Enabled(ctx, slog.LevelDebug)
}

// Handle passes the record on. client-go doesn't call Enabled for errors.
func (h debugHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.to.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	r.Level = slog.LevelDebug
	return h.to.Handle(ctx, r)
}

// WithAttrs is part of slog.Handler.
func (h debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{h.to.WithAttrs(attrs)}
}

// WithGroup is part of slog.Handler.
func (h debugHandler) WithGroup(name string) slog.Handler { return debugHandler{h.to.WithGroup(name)} }
