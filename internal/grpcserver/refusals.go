package grpcserver

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// reason is why a connection or a call was refused: the label of the metric.
type reason string

const (
	connectionsPerPeer     reason = "connections_per_peer"
	connections            reason = "connections"
	connectionsWithoutRole reason = "connections_without_role"
	handshake              reason = "handshake"
	noAccess               reason = "access"
	callsWithoutRole       reason = "calls_without_role"
	healthStreams          reason = "health_streams"
	requestRate            reason = "request_rate"
)

var reasons = []reason{
	connectionsPerPeer, connections, connectionsWithoutRole, handshake, noAccess, callsWithoutRole, healthStreams, requestRate,
}

const (
	// refusalLogInterval is how often one caller's refusals for one reason are logged at most.
	refusalLogInterval = time.Minute
	// maxLoggedCallers bounds the memory of who was logged. Of more callers within an interval, the rest is only counted.
	maxLoggedCallers = 4096
)

// refusals counts what is refused, and logs it without letting a flood become a flood of log lines.
type refusals struct {
	total *prometheus.CounterVec
	clock clock.PassiveClock
	log   *slog.Logger

	mu     sync.Mutex
	logged map[refusal]*logged
}

type refusal struct {
	reason reason
	caller string
}

type logged struct {
	at time.Time
	// silent is how many came since, unlogged.
	silent int
}

func newRefusals(c clock.PassiveClock, log *slog.Logger) *refusals {
	r := &refusals{clock: c, log: log, logged: map[refusal]*logged{}, total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "podstream_grpc_refused_total", Help: "Connections and calls that the gRPC server refused, by reason.",
	}, []string{"reason"})}
	for _, known := range reasons {
		r.total.WithLabelValues(string(known))
	}
	return r
}

// add counts a refusal. caller is the peer or, where it is known, the identity; why is for the log.
func (r *refusals) add(what reason, caller string, why error) {
	r.total.WithLabelValues(string(what)).Inc()
	if silent, ok := r.due(refusal{what, caller}); ok {
		r.log.Warn("refused a caller", "reason", string(what), "caller", caller, "error", why, "unlogged_before", silent)
	}
}

// due tells whether the refusal is to be logged now, and how many weren't since the last line.
func (r *refusals) due(of refusal) (silent int, ok bool) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.logged[of]
	switch {
	case l != nil && now.Sub(l.at) < refusalLogInterval:
		l.silent++
		return 0, false
	case l == nil && len(r.logged) >= maxLoggedCallers && !r.sweep(now):
		return 0, false
	case l == nil:
		l = &logged{}
		r.logged[of] = l
	}
	silent = l.silent
	*l = logged{at: now}
	return silent, true
}

// sweep forgets the callers of former intervals, and tells whether there were any.
func (r *refusals) sweep(now time.Time) bool {
	for key, l := range r.logged {
		if now.Sub(l.at) >= refusalLogInterval {
			delete(r.logged, key)
		}
	}
	return len(r.logged) < maxLoggedCallers
}
