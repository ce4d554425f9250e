package podconfigd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/sourceconfig"
)

const (
	// sourcesHealth is the sources' service in grpc.health.v1: NOT_SERVING while one of them fails or wasn't heard
	// for too long. Their pods stay.
	sourcesHealth = "podconfigd.sources"
	// maxUnheard is how long a source may be unheard, beyond three times the interval at which it is read.
	maxUnheard = 2 * time.Minute
	// lookInterval is the interval of that check.
	lookInterval = 5 * time.Second
)

// listener finds the sources that weren't heard for too long.
type listener struct {
	plan    func() *sourceconfig.Plan
	sources func() []merge.SourceState
	health  func(good bool)
	// status gets what podconfigd waits for, for systemd. May be nil.
	status func(string)
	now    func() time.Time
	log    *slog.Logger
	// logged are the unheard sources that were logged.
	logged string
}

func (l *listener) run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		l.look()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (l *listener) look() {
	intervals := map[string]time.Duration{}
	for _, s := range l.plan().Sources {
		intervals[s.Name] = intervalOf(s)
	}
	var unheard []string
	good := true
	sources := l.sources()
	if l.status != nil {
		l.status(statusOf(sources))
	}
	for _, s := range sources {
		interval, planned := intervals[s.Name]
		if !planned {
			continue // Another main added it, or it is being removed: no plan has its interval.
		}
		silent := l.now().Sub(s.LastHeard) > maxUnheard+3*interval
		good = good && s.LastErr == nil && !silent
		// Sources that can't be read, or never were, are reported elsewhere.
		if silent && s.LastErr == nil && !s.LastHeard.IsZero() {
			unheard = append(unheard, s.Name)
		}
	}
	l.health(good)
	now := strings.Join(unheard, ",")
	switch {
	case now == l.logged, now == "" && !good: // An unheard source may fail by now.
		return
	case now == "":
		l.log.Info("all sources were heard again")
	default:
		l.log.Warn("sources weren't heard for too long; their pods stay as they are, and may be outdated", "sources", now)
	}
	l.logged = now
}

// intervalOf returns the longest interval at which the source is read, if that is longer than maxUnheard allows for.
func intervalOf(s sourceconfig.Source) time.Duration {
	switch {
	case s.File != nil:
		return s.File.CheckFrequency
	case s.HTTP != nil:
		return s.HTTP.CheckFrequency
	}
	return 0
}

// statusOf returns the line for systemd: the sources that podconfigd waits for, or how many pods it serves.
func statusOf(sources []merge.SourceState) string {
	var missing []string
	pods := 0
	for _, s := range sources {
		pods += s.Pods
		why := cmp.Or(s.LastErr, s.Unready)
		switch {
		case s.Ready && s.LastErr == nil:
		case why != nil:
			missing = append(missing, fmt.Sprintf("waiting for source %s: %v", s.Name, why))
		default:
			missing = append(missing, "waiting for source "+s.Name)
		}
	}
	return strings.Join(append([]string{fmt.Sprintf("serving; pods: %d", pods)}, missing...), "; ")
}
