package kubeletapi

import (
	"fmt"
	"log"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// reasons are the reasons for refusals: the label of the metric.
var reasons = []string{
	"connections", "handshake", "path", "unauthorized", "forbidden", "method", "undecided", "busy",
}

const (
	// logRate and logBurst limit the logged refusals for one reason: per second, and at once.
	logRate, logBurst = 0.2, 10
	// maxLogged is the limit of a caller's text in the log.
	maxLogged = 256
)

// refused describes a refused request or connection.
type refused struct {
	peer, user, verb, path string
	err                    error
}

// refusals counts refusals, and logs them at a limited rate.
type refusals struct {
	total *prometheus.CounterVec
	log   *slog.Logger

	mu     sync.Mutex
	silent map[string]int
	rates  map[string]*rate.Limiter
}

func newRefusals(logger *slog.Logger) *refusals {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "podstream_node_api_refused_total", Help: "Connections and requests that the node's API refused, by reason.",
	}, []string{"reason"})
	r := &refusals{total: total, log: logger, silent: map[string]int{}, rates: map[string]*rate.Limiter{}}
	for _, known := range reasons {
		r.total.WithLabelValues(known)
		r.rates[known] = rate.NewLimiter(logRate, logBurst)
	}
	return r
}

func (r *refusals) add(reason string, of refused) {
	r.total.WithLabelValues(reason).Inc()
	silent, ok := r.due(reason)
	if !ok {
		return
	}
	args := []any{"reason", reason, "peer", of.peer, "error", printable(fmt.Sprint(of.err)), "unlogged_before", silent}
	for _, known := range []struct{ name, value string }{{"user", of.user}, {"verb", of.verb}, {"path", of.path}} {
		if known.value != "" {
			args = append(args, known.name, printable(known.value))
		}
	}
	r.log.Warn("the node's API refused a caller", args...)
}

// due reports whether a refusal must be logged, and how many weren't since the last line.
func (r *refusals) due(reason string) (silent int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.rates[reason].Allow() {
		r.silent[reason]++
		return 0, false
	}
	silent = r.silent[reason]
	delete(r.silent, reason)
	return silent, true
}

// printable returns a caller's text, cut, and without control characters for a terminal or log.
func printable(s string) string {
	cut := len(s) > maxLogged
	if cut {
		s = s[:maxLogged]
	}
	quoted := strconv.QuoteToASCII(s)
	s = quoted[1 : len(quoted)-1]
	if cut {
		s += "…"
	}
	return s
}

// errorLog receives net/http's errors. Most are failed handshakes, whose number callers control.
type errorLog struct {
	refusals *refusals
	rate     *rate.Limiter
}

func newErrorLog(r *refusals) *log.Logger {
	return log.New(errorLog{r, rate.NewLimiter(logRate, logBurst)}, "", 0)
}

func (l errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if rest, ok := strings.CutPrefix(text, "http: TLS handshake error from "); ok {
		peer, why, _ := strings.Cut(rest, ": ")
		l.refusals.add("handshake", refused{peer: peer, err: fmt.Errorf("handshake: %s", why)})
	} else if l.rate.Allow() {
		l.refusals.log.Warn("the HTTP server of the node's API reports an error", "error", printable(text))
	}
	return len(line), nil
}
