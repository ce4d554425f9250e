package podconfigd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources/applied"
)

const (
	// sourceHealth and a source's name is the source's service in grpc.health.v1: SERVING once it was read, while it is
	// read without an error and its place answers in time. Its pods stay otherwise too.
	sourceHealth = "podconfigd.source/"
	// sourcesHealth is SERVING while all sources are. Clients of several podconfigds prefer one with that.
	sourcesHealth = "podconfigd.sources"
	// answerTime is how long a source may be unheard beyond what is normal for its kind.
	answerTime = 30 * time.Second
	// lookInterval is the interval of that check.
	lookInterval = 5 * time.Second
	// probeInterval is the interval at which the source api asks its server.
	probeInterval = 30 * time.Second
	// relayAge is the largest normal age of an answer that a relay knows of, through two relays: 30 s for the API
	// server, and for each relay 20 s until it asks and 20 s until it confirms its pods.
	relayAge = 90 * time.Second
)

// listener finds the sources that weren't heard for too long.
type listener struct {
	plan    func() *sourceconfig.Plan
	sources func() []merge.SourceState
	// health sets the health of a part, and remove removes one.
	health func(part string, good bool)
	remove func(part string)
	// status gets what podconfigd waits for, for systemd. May be nil.
	status func(string)
	now    func() time.Time
	log    *slog.Logger
	// silent are the sources that aren't well, for isSilent.
	silent atomic.Pointer[map[string]bool]
	// logged are the unheard sources that were logged.
	logged string
	// parts are the parts of sources that have a health.
	parts map[string]bool
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
	good, parts, ill := true, map[string]bool{}, map[string]bool{}
	sources := l.sources()
	if l.status != nil {
		l.status(statusOf(sources))
	}
	for _, s := range sources {
		interval, planned := intervals[s.Name]
		if !planned {
			continue // Another main added it, or it is being removed: no plan has its interval.
		}
		silent := l.now().Sub(s.LastHeard) > answerTime+interval
		well := s.LastErr == nil && !silent
		good = good && well
		parts[sourceHealth+s.Name] = true
		l.health(sourceHealth+s.Name, well)
		ill[s.Name] = !well && !s.LastHeard.IsZero()
		// Sources that can't be read, or never were, are reported elsewhere.
		if silent && s.LastErr == nil && !s.LastHeard.IsZero() {
			unheard = append(unheard, s.Name)
		}
	}
	l.silent.Store(&ill)
	l.health(sourcesHealth, good)
	for part := range l.parts {
		if !parts[part] {
			l.remove(part)
		}
	}
	l.parts = parts
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

// isSilent reports whether a source that was heard before isn't heard now, or can't be read. It is safe for concurrent
// use.
func (l *listener) isSilent(source string) bool {
	ill := l.silent.Load()
	return ill != nil && (*ill)[source]
}

// intervalOf returns how old the last answer of a source's place may normally be. Of a file, URL or
// artifact, one reading may take
// as long as the interval between two.
func intervalOf(s sourceconfig.Source) time.Duration {
	switch {
	case s.File != nil:
		return 2 * s.File.CheckFrequency
	case s.HTTP != nil:
		return 2 * s.HTTP.CheckFrequency
	case s.OCI != nil:
		return 2 * s.OCI.Interval
	case s.Relay != nil:
		return relayAge
	case s.Applied != nil:
		return 2 * applied.CheckFrequency
	}
	return probeInterval
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
