package findings

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// askTimeout bounds a list of the sources.
const askTimeout = 5 * time.Second

// Config configures a Reporter.
type Config struct {
	// Sources lists podconfigd's sources.
	Sources func(context.Context) ([]*podconfigv1.Source, error)
	// Pod returns a desired pod of this node, or nil.
	Pod func(types.UID) *v1.Pod
	// Event is called with each event of the Node.
	Event func(nodestatus.Event)
	// Events gets the events of pods.
	Events *events.Recorder
	// Period is the time between two lists. Zero means 20 s, the kubelet's period for files.
	Period time.Duration
	// Clock is for the period. Nil means the real one.
	Clock clock.WithTicker
}

// Reporter records the findings.
type Reporter struct {
	cfg  Config
	book *book
}

// New returns a Reporter.
func New(cfg Config) *Reporter {
	if cfg.Period == 0 {
		cfg.Period = 20 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Reporter{cfg: cfg, book: newBook()}
}

// Run works until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	ticker := r.cfg.Clock.NewTicker(r.cfg.Period)
	defer ticker.Stop()
	for {
		r.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// round lists the sources once. The client that reads the stream logs that podconfigd is away.
func (r *Reporter) round(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	sources, err := r.cfg.Sources(asking)
	if err != nil {
		return
	}
	for _, d := range r.book.due(r.cfg.Clock.Now(), sources) {
		if d.node {
			r.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: events.FailedValidation, Message: d.message})
		}
		for _, uid := range d.pods {
			if pod := r.cfg.Pod(uid); pod != nil {
				r.cfg.Events.Record(pod, "", events.Warning, events.FailedValidation, d.message+"; the last good version of this pod stays")
			}
		}
	}
}
