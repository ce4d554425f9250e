package grpcserver

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// reason is the reason for refusing a connection or a call: the label of the metric.
type reason string

const (
	connectionsPerPeer     reason = "connections_per_peer"
	connections            reason = "connections"
	connectionsWithoutRole reason = "connections_without_role"
	handshake              reason = "handshake"
	handshakes             reason = "handshakes"
	noAccess               reason = "access"
	callsWithoutRole       reason = "calls_without_role"
	healthStreams          reason = "health_streams"
	requestRate            reason = "request_rate"
	callsPerPeer           reason = "calls_per_peer"
)

var reasons = []reason{
	connectionsPerPeer, connections, connectionsWithoutRole, handshake, handshakes, noAccess, callsWithoutRole, healthStreams, requestRate,
	callsPerPeer,
}

const (
	// refusalLogInterval is the minimum time between two log lines for one caller and reason.
	refusalLogInterval = time.Minute
	// maxLoggedCallers bounds the memory for logged callers. Beyond it, refusals within an interval are only counted.
	maxLoggedCallers = 4096
)

// refusals counts refusals, and limits their log lines.
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
	// silent is the number of refusals since then without a log line.
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

// add counts a refusal. caller is the peer or, if known, the identity; why is for the log.
func (r *refusals) add(what reason, caller string, why error) {
	r.total.WithLabelValues(string(what)).Inc()
	if silent, ok := r.due(refusal{what, caller}); ok {
		r.log.Warn("refused a caller", "reason", string(what), "caller", caller, "error", why, "unlogged_before", silent)
	}
}

// due reports whether the refusal is to be logged now, and the number of unlogged ones since the last line.
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

// sweep drops the callers of former intervals, and reports whether there were any.
func (r *refusals) sweep(now time.Time) bool {
	for key, l := range r.logged {
		if now.Sub(l.at) >= refusalLogInterval {
			delete(r.logged, key)
		}
	}
	return len(r.logged) < maxLoggedCallers
}
