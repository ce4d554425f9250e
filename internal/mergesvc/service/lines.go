package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
)

const (
	// linesEach is how many lines the streams and reports of one identity may log in linesInterval. linesIdentities
	// is how many identities are counted separately; the lines of all others are counted together.
	linesEach       = 30
	linesInterval   = time.Minute
	linesIdentities = 1024
)

// lines limits the log lines that callers cause: a caller that connects and disconnects repeatedly must not fill the
// disk, or hide other lines. Lines that are left out are counted, and logged as one line for each identity and
// interval. Owners aren't limited.
type lines struct {
	log   *slog.Logger
	clock clock.PassiveClock

	mu sync.Mutex
	// of has the identities that logged a line in their current interval.
	of map[string]*linesOf
}

// linesOf is one identity's interval: the number of logged lines, and of those left out, by message.
type linesOf struct {
	since   time.Time
	logged  int
	leftOut map[string]int
}

func newLines(log *slog.Logger, clock clock.PassiveClock) *lines {
	return &lines{log: log, clock: clock, of: map[string]*linesOf{}}
}

// logger returns the logger of the caller's streams and reports.
func (l *lines) logger(caller access.Caller, consumer string) *slog.Logger {
	log := l.log
	if !isOwner(caller) {
		log = slog.New(&boundedHandler{log.Handler(), l, caller.Identity})
	}
	return log.With("consumer", consumer, "identity", caller.Identity)
}

// allow reports whether another line of the identity is logged.
func (l *lines) allow(identity, message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[identity] == nil && len(l.of) >= linesIdentities {
		identity = ""
	}
	of := l.of[identity]
	if of == nil {
		of = &linesOf{since: l.clock.Now(), leftOut: map[string]int{}}
		l.of[identity] = of
	}
	if of.logged < linesEach {
		of.logged++
		return true
	}
	of.leftOut[message]++
	return false
}

// sweep ends the intervals that are over, and logs how many lines were left out.
func (l *lines) sweep() {
	l.mu.Lock()
	over := map[string]*linesOf{}
	for identity, of := range l.of {
		if l.clock.Since(of.since) >= linesInterval {
			over[identity] = of
			delete(l.of, identity)
		}
	}
	l.mu.Unlock()
	for _, identity := range slices.Sorted(maps.Keys(over)) {
		if of := over[identity]; len(of.leftOut) > 0 {
			l.log.Warn("consumers of one identity log too much; some of their lines are left out", "identity", identity, "leftOut", of.String())
		}
	}
}

// String describes the lines that were left out.
func (of *linesOf) String() string {
	var out []string
	for _, message := range slices.Sorted(maps.Keys(of.leftOut)) {
		out = append(out, fmt.Sprintf("%d times %q", of.leftOut[message], message))
	}
	return strings.Join(out, ", ")
}

// boundedHandler is a handler for one identity's lines.
type boundedHandler struct {
	slog.Handler
	lines    *lines
	identity string
}

// Handle is part of slog.Handler.
func (h *boundedHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.lines.allow(h.identity, r.Message) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is part of slog.Handler.
func (h *boundedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &boundedHandler{h.Handler.WithAttrs(attrs), h.lines, h.identity}
}

// WithGroup is part of slog.Handler.
func (h *boundedHandler) WithGroup(name string) slog.Handler {
	return &boundedHandler{h.Handler.WithGroup(name), h.lines, h.identity}
}
