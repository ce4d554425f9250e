package service

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// maxReporters is of how many consumers the last report is remembered.
const maxReporters = 1024

// consumers are the open streams, and what consumers last reported.
type consumers struct {
	log       *slog.Logger
	clock     clock.WithTicker
	metrics   *metrics.Metrics
	limit     int
	parkAfter time.Duration

	mu   sync.Mutex
	open map[*consumer]bool
	// holders are how many open streams each identity has under a name.
	holders map[string]map[string]int
	reports map[who]*report
}

// who is a consumer's name, and whose it is.
type who struct{ name, identity string }

// report is the last ReportApplied of a consumer.
type report struct {
	*podconfigv1.ReportAppliedRequest
	time time.Time
}

func newConsumers(cfg Config) *consumers {
	return &consumers{
		log: cfg.Logger, clock: cfg.Clock, metrics: cfg.Metrics, limit: cfg.MaxConsumers, parkAfter: cfg.ParkAfter,
		open: map[*consumer]bool{}, holders: map[string]map[string]int{}, reports: map[who]*report{},
	}
}

// consumerName is the name that a caller goes by. Over TLS it is bound to the certificate: the identity itself, or one that
// begins with it and a slash. On the socket, where the kernel knows uids only, it is free, as long as nobody else has it.
func consumerName(wanted string, caller access.Caller) (string, error) {
	switch {
	case len(wanted) > maxConsumerName:
		return "", status.Errorf(codes.InvalidArgument, "consumer: is %d bytes long; at most %d are allowed", len(wanted), maxConsumerName)
	case wanted == "":
		return caller.Identity, nil
	case strings.HasPrefix(caller.Identity, "uid:"), wanted == caller.Identity, strings.HasPrefix(wanted, caller.Identity+"/"):
		return wanted, nil
	default:
		return "", status.Errorf(codes.PermissionDenied, "consumer: %q isn't %q, nor does it begin with %q", wanted, caller.Identity, caller.Identity+"/")
	}
}

// add enters a stream that follows a history, unless there are too many or its name is another caller's.
func (cs *consumers) add(sub *subscription, follows course) (*consumer, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.open) >= cs.limit {
		cs.metrics.Refused.WithLabelValues(metrics.TooMany).Inc()
		return nil, status.Errorf(codes.ResourceExhausted, "%d consumers are served already, which is the limit (--max-consumers)", cs.limit)
	}
	if err := cs.owns(sub.name, sub.caller); err != nil {
		return nil, err
	}
	c := &consumer{subscription: sub, connected: cs.clock.Now(), course: follows}
	cs.open[c] = true
	if cs.holders[c.name] == nil {
		cs.holders[c.name] = map[string]int{}
	}
	cs.holders[c.name][c.caller.Identity]++
	return c, nil
}

// owns fails if another identity has an open stream under the name. Root and podconfigd's own user are never shut out: no other
// user can keep podexecd from its stream by taking its name first.
func (cs *consumers) owns(name string, caller access.Caller) error {
	if caller.Identity == "uid:0" || caller.Identity == "uid:"+strconv.Itoa(os.Geteuid()) {
		return nil
	}
	for identity := range cs.holders[name] {
		if identity != caller.Identity {
			return status.Errorf(codes.PermissionDenied, "consumer: %q is in use by %s", name, identity)
		}
	}
	return nil
}

func (cs *consumers) remove(c *consumer) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
	holders := cs.holders[c.name]
	if holders[c.caller.Identity]--; holders[c.caller.Identity] == 0 {
		delete(holders, c.caller.Identity)
	}
	if len(holders) == 0 {
		delete(cs.holders, c.name)
	}
}

func (cs *consumers) all() []*consumer {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Collect(maps.Keys(cs.open))
}

// sweep parks the consumers that haven't read for a while. Nothing has to be done for them: nothing is kept for them but the
// message that waits.
func (cs *consumers) sweep() {
	before := cs.clock.Now().Add(-cs.parkAfter)
	for _, c := range cs.all() {
		if !c.park(before) {
			continue
		}
		cs.metrics.Parked.WithLabelValues(metrics.Stalled).Inc()
		cs.log.Warn("consumer doesn't read and is parked; nothing is kept for it, and when it reads again it is caught up",
			"consumer", c.name, "identity", c.caller.Identity, "revision", c.at.Load(), "for", cs.parkAfter)
	}
}

// Run looks for consumers that don't read, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	ticker := s.clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			s.consumers.sweep()
		}
	}
}

// Describe is part of prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	ch <- metrics.Consumers
	ch <- metrics.Lag
}

// Collect is part of prometheus.Collector: the gauges of the open streams.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	slowest, counts := uint64(0), map[podconfigv1.ConsumerState]int{}
	for _, c := range s.consumers.all() {
		number := c.course.Number()
		counts[c.state(number)]++
		if at := c.at.Load(); at < number {
			slowest = max(slowest, number-at)
		}
	}
	for state, label := range map[podconfigv1.ConsumerState]string{
		podconfigv1.ConsumerState_CONSUMER_STATE_CATCHING_UP: "catching_up",
		podconfigv1.ConsumerState_CONSUMER_STATE_LIVE:        "live",
		podconfigv1.ConsumerState_CONSUMER_STATE_PARKED:      "parked",
	} {
		ch <- prometheus.MustNewConstMetric(metrics.Consumers, prometheus.GaugeValue, float64(counts[state]), label)
	}
	ch <- prometheus.MustNewConstMetric(metrics.Lag, prometheus.GaugeValue, float64(slowest))
}
