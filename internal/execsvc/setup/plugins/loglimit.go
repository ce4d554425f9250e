package plugins

import (
	"log/slog"
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
	// maxLogged bounds the paths with a limit of their own. Beyond it the path of the oldest line begins afresh.
	maxLogged = 4 * maxSockets
	// allBurst and allEvery are those of the lines of all sockets, for those of plugins that are registered and for all others: a process
	// that makes many sockets that aren't plugins keeps no plugin out of the log.
	allBurst = 4 * maxSockets
	allEvery = 10 * time.Second
)

// logLimit limits the lines of each socket's path.
type logLimit struct {
	log   *slog.Logger
	clock clock.PassiveClock

	mu    sync.Mutex
	paths map[string]*allowance
	// plugins are all lines about plugins that are registered, failures all others.
	plugins, failures *rate.Limiter
}

// allowance is what may be logged of a path. omitted counts the lines since the last one that was, and asked is when the last one was to be.
type allowance struct {
	limiter *rate.Limiter
	omitted int
	asked   time.Time
}

func newLogLimit(log *slog.Logger, c clock.PassiveClock) *logLimit {
	return &logLimit{log: log, clock: c, paths: map[string]*allowance{}, plugins: newTotal(), failures: newTotal()}
}

func newTotal() *rate.Limiter { return rate.NewLimiter(rate.Every(allEvery), allBurst) }

// of returns the logger of the next line about a socket, which is that of a plugin or not. It may discard it.
func (l *logLimit) of(rel string, plugin bool) *slog.Logger {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	a := l.paths[rel]
	if a == nil {
		if len(l.paths) >= maxLogged {
			l.forget(now)
		}
		a = &allowance{limiter: rate.NewLimiter(rate.Every(logEvery), logBurst)}
		l.paths[rel] = a
	}
	a.asked = now
	all := l.failures
	if plugin {
		all = l.plugins
	}
	if !a.limiter.AllowN(now, 1) || !all.AllowN(now, 1) {
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

// forget forgets the paths whose lines were all long ago, and otherwise that of the oldest line.
func (l *logLimit) forget(now time.Time) {
	oldest, at := "", now
	for rel, a := range l.paths {
		if a.limiter.TokensAt(now) >= logBurst {
			delete(l.paths, rel)
		} else if !a.asked.After(at) {
			oldest, at = rel, a.asked
		}
	}
	if len(l.paths) >= maxLogged {
		delete(l.paths, oldest)
	}
}
