package plugins

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// The bounds of the log. A process that binds its socket again and again would fill the node's disk with lines otherwise.
const (
	// logBurst is how many lines of one socket are logged at once, and logEvery the interval of more.
	logBurst = 20
	logEvery = 30 * time.Second
	// maxLogged bounds the paths with a limit of their own. All others share one.
	maxLogged = 4 * maxSockets
)

// logLimit limits the lines of each socket's path.
type logLimit struct {
	log   *slog.Logger
	clock clock.PassiveClock

	mu     sync.Mutex
	paths  map[string]*allowance
	others *allowance
}

// allowance is what may be logged. omitted counts the lines since the last one that was.
type allowance struct {
	limiter *rate.Limiter
	omitted int
}

func newAllowance() *allowance {
	return &allowance{limiter: rate.NewLimiter(rate.Every(logEvery), logBurst)}
}

func newLogLimit(log *slog.Logger, c clock.PassiveClock) *logLimit {
	return &logLimit{log: log, clock: c, paths: map[string]*allowance{}, others: newAllowance()}
}

// of returns the logger of the next line about a socket. It may discard it.
func (l *logLimit) of(rel string) *slog.Logger {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	a := l.paths[rel]
	if a == nil {
		if len(l.paths) >= maxLogged {
			// A path whose lines were all long ago begins afresh.
			maps.DeleteFunc(l.paths, func(_ string, a *allowance) bool { return a.limiter.TokensAt(now) >= logBurst })
		}
		if a = l.others; len(l.paths) < maxLogged {
			a = newAllowance()
			l.paths[rel] = a
		}
	}
	if !a.limiter.AllowN(now, 1) {
		a.omitted++
		return slog.New(slog.DiscardHandler)
	}
	log := l.log
	if a.omitted > 0 {
		log = log.With("omitted", a.omitted)
		a.omitted = 0
	}
	return log
}
