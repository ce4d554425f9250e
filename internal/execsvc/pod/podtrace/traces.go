package podtrace

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
)

// longest is how long the syncs of a pod belong to its last change.
const longest = time.Hour

// Config configures Traces.
type Config struct {
	// Tracer makes the spans.
	Tracer trace.Tracer
	// Clock is for the age of changes. Nil means the real one.
	Clock clock.PassiveClock
}

// Traces has the last traced change of each pod. It is safe for concurrent use. Nil: nothing is traced.
type Traces struct {
	cfg Config

	mu      sync.Mutex
	changes map[types.UID]change
}

// change is the span of a change in podconfigd.
type change struct {
	span trace.SpanContext
	op   string
	at   time.Time
}

// New returns Traces without a change.
func New(cfg Config) *Traces {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Traces{cfg: cfg, changes: map[types.UID]change{}}
}

// Changed records the trace of a change. A change without one ends the trace of its pods, since their syncs are no
// longer those of the change before. An invalid context counts as none.
func (t *Traces) Changed(c client.Change) {
	if t == nil || c.Op == client.Reconcile {
		return
	}
	carrier := propagation.MapCarrier{"traceparent": c.TraceParent, "tracestate": c.TraceState}
	span := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	now := t.cfg.Clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.changes, func(_ types.UID, c change) bool { return now.Sub(c.at) > longest })
	for _, pod := range c.Pods {
		if span.IsSampled() {
			t.changes[pod.UID] = change{span, c.Op.String(), now}
		} else {
			delete(t.changes, pod.UID)
		}
	}
}

// Start starts the span of a sync, if the pod has a traced change. end ends the span; with done, it was the change's last
// sync.
func (t *Traces) Start(ctx context.Context, name string, pod *v1.Pod) (_ context.Context, end func(done bool, err error)) {
	if t == nil {
		return ctx, func(bool, error) {}
	}
	t.mu.Lock()
	of, ok := t.changes[pod.UID]
	t.mu.Unlock()
	if !ok || t.cfg.Clock.Since(of.at) > longest {
		return ctx, func(bool, error) {}
	}
	// The attributes are the kubelet's.
	ctx, span := t.cfg.Tracer.Start(trace.ContextWithRemoteSpanContext(ctx, of.span), name, trace.WithAttributes(
		attribute.String("k8s.pod.uid", string(pod.UID)), attribute.String("k8s.pod", pod.Namespace+"/"+pod.Name),
		attribute.String("k8s.pod.name", pod.Name), attribute.String("k8s.pod.update_type", of.op),
		attribute.String("k8s.namespace.name", pod.Namespace)))
	return ctx, func(done bool, err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
		if done {
			t.forget(pod.UID, of)
		}
	}
}

// forget ends the trace of a change, unless the pod has changed since.
func (t *Traces) forget(uid types.UID, of change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now, ok := t.changes[uid]; ok && now.at.Equal(of.at) && now.span.Equal(of.span) {
		delete(t.changes, uid)
	}
}
