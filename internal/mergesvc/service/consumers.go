package service

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// maxReporters is the number of consumers whose last report is kept.
const maxReporters = 1024

// consumers are the open streams, and the last reports.
type consumers struct {
	lines     *lines
	clock     clock.WithTicker
	metrics   *metrics.Metrics
	slots     *sharedAmount
	parkAfter time.Duration

	mu sync.Mutex
	// opened counts the streams since the start.
	opened uint64
	open   map[*consumer]bool
	// holders counts the open streams of each identity under a name. There is rarely more than one.
	holders map[string][]holding
	reports map[holder]*report
}

// holder is a consumer's name, and the identity that it belongs to.
type holder struct{ name, identity string }

// holding is how many streams an identity has under a name.
type holding struct {
	identity string
	streams  int
}

// report is the last ReportApplied of a consumer.
type report struct {
	*podconfigv1.ReportAppliedRequest
	time time.Time
	// named is the number of errors that the consumer sent, some of which aren't kept.
	named int
}

func newConsumers(cfg Config, lines *lines) *consumers {
	return &consumers{
		lines: lines, clock: cfg.Clock, metrics: cfg.Metrics, parkAfter: cfg.ParkAfter,
		slots: newSharedAmount(share{cfg.MaxConsumers, cfg.MaxConsumersPerIdentity, cfg.ReservedConsumers}),
		open:  map[*consumer]bool{}, holders: map[string][]holding{}, reports: map[holder]*report{},
	}
}

// consumerName returns the name of a consumer. Over TLS it is bound to the certificate: the identity itself, or one
// that begins with it and a slash. On the socket, where the kernel only provides uids, any name is allowed that no
// other identity uses.
func consumerName(wanted string, caller access.Caller) (string, error) {
	switch {
	case len(wanted) > maxConsumerName:
		return "", invalidArgument("consumer: is %d bytes long; at most %d are allowed", len(wanted), maxConsumerName)
	case wanted == "":
		return caller.Identity, nil
	case strings.HasPrefix(caller.Identity, "uid:"), wanted == caller.Identity, strings.HasPrefix(wanted, caller.Identity+"/"):
		return wanted, nil
	default:
		return "", permissionDenied("consumer: %q isn't %q, nor does it begin with %q", wanted, caller.Identity, caller.Identity+"/")
	}
}

// add registers a stream that follows a history. It returns an error if there are too many streams, or another
// identity uses the name.
func (cs *consumers) add(sub *subscription, follows course) (*consumer, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if err := cs.owns(sub.name, sub.caller); err != nil {
		return nil, err
	}
	if limit, own, ok := cs.slots.take(sub.caller, 1); !ok {
		cs.metrics.Refused.WithLabelValues(metrics.TooMany).Inc()
		if own && limit != cs.slots.total {
			return nil, resourceExhausted("%s has %d streams already, which is the limit for one identity (--max-consumers-per-identity)", sub.caller.Identity, limit)
		}
		return nil, resourceExhausted("%d consumers are served already, which is the limit (--max-consumers)", limit)
	}
	cs.opened++
	c := &consumer{subscription: sub, connected: cs.clock.Now(), number: cs.opened, course: follows}
	cs.open[c] = true
	cs.hold(c.name, c.caller.Identity, 1)
	return c, nil
}

// hold adds n to an identity's streams under a name. The caller holds mu.
func (cs *consumers) hold(name, identity string, n int) {
	all := cs.holders[name]
	i := slices.IndexFunc(all, func(h holding) bool { return h.identity == identity })
	if i < 0 {
		i, all = len(all), append(all, holding{identity: identity})
	}
	if all[i].streams += n; all[i].streams == 0 {
		all = slices.Delete(all, i, i+1)
	}
	if cs.holders[name] = all; len(all) == 0 {
		delete(cs.holders, name)
	}
}

// owns returns an error if another identity has an open stream under the name. It never does for root and
// podconfigd's own user: no other user can block podexecd's stream by using its name first.
func (cs *consumers) owns(name string, caller access.Caller) error {
	if isOwner(caller) {
		return nil
	}
	for _, h := range cs.holders[name] {
		if h.identity != caller.Identity {
			return permissionDenied("consumer: %q is in use by %s", name, h.identity)
		}
	}
	return nil
}

func (cs *consumers) remove(c *consumer) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
	cs.slots.give(c.caller, 1)
	cs.hold(c.name, c.caller.Identity, -1)
}

func (cs *consumers) all() []*consumer {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Collect(maps.Keys(cs.open))
}

// sweep parks the consumers that haven't read for a while. That changes only what is shown: nothing is kept for a
// consumer but the message that waits.
func (cs *consumers) sweep() {
	before := cs.clock.Now().Add(-cs.parkAfter)
	for _, c := range cs.all() {
		if !c.park(before) {
			continue
		}
		cs.metrics.Parked.WithLabelValues(metrics.Stalled).Inc()
		cs.lines.logger(c.caller, c.name).Warn("consumer doesn't read and is parked; nothing is kept for it, and when it reads again it is caught up",
			"revision", c.at.Load(), "for", cs.parkAfter)
	}
}

// Run looks for consumers that don't read, and logs the lines that were left out of each identity, until ctx ends. It
// wakes the streams when their heartbeats have changes to report that no revision reports.
func (s *Server) Run(ctx context.Context) {
	ticker := s.clock.NewTicker(time.Second)
	defer ticker.Stop()
	said := s.heartbeatState()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			s.consumers.sweep()
			s.lines.sweep()
			if now := s.heartbeatState(); !now.equal(said) {
				said = now
				s.history.Wake()
			}
		}
	}
}

// Describe is part of prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	ch <- metrics.Consumers
	ch <- metrics.Held
	ch <- metrics.Lag
}

// notConfigured is the label of all held sources that aren't configured here.
const notConfigured = "(not configured)"

// Collect is part of prometheus.Collector: the gauges of the open streams.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	slowest, counts, held := uint64(0), map[podconfigv1.ConsumerState]int{}, map[string]int{}
	for _, src := range s.history.Sources() {
		held[src.Name] = 0
	}
	for _, c := range s.consumers.all() {
		lag, _ := c.course.Behind(c.at.Load())
		counts[c.state(lag)]++
		slowest = max(slowest, lag)
		if list := c.heldSources.Load(); list != nil {
			for _, h := range *list {
				name := h.GetName()
				if _, configured := held[name]; !configured {
					name = notConfigured // The consumer chose the name.
				}
				held[name]++
			}
		}
	}
	for source, n := range held {
		ch <- prometheus.MustNewConstMetric(metrics.Held, prometheus.GaugeValue, float64(n), source)
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
