package podtrace

import (
	"errors"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/client"
)

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// world has Traces whose spans are recorded.
type world struct {
	t        *testing.T
	traces   *Traces
	recorder *tracetest.SpanRecorder
	clock    *clocktesting.FakePassiveClock
	pod      *v1.Pod
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, recorder: tracetest.NewSpanRecorder(), clock: clocktesting.NewFakePassiveClock(time.Now()),
		pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: "default", Name: "web"}},
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.recorder), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	w.traces = New(Config{Tracer: provider.Tracer("test"), Clock: w.clock})
	return w
}

func (w *world) change(op client.Op, parent string) {
	w.traces.Changed(client.Change{Op: op, Pods: []client.Pod{{UID: w.pod.UID}}, TraceParent: parent})
}

// sync is a sync of the pod. It returns the number of spans that it made.
func (w *world) sync(done bool, err error) int {
	before := len(w.recorder.Ended())
	_, end := w.traces.Start(w.t.Context(), "syncPod", w.pod)
	end(done, err)
	return len(w.recorder.Ended()) - before
}

func (w *world) want(what string, got, want int) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s makes %d spans; want %d", what, got, want)
	}
}

// TestTrace: the syncs of a change are spans of its trace, until one is done.
func TestTrace(t *testing.T) {
	w := newWorld(t)
	w.want("a sync without a change", w.sync(true, nil), 0)
	w.change(client.Add, sampled)
	w.want("the first sync", w.sync(false, errors.New("no network")), 1)
	w.change(client.Reconcile, "")
	w.want("a sync after a reconciliation", w.sync(false, nil), 1)
	w.want("the last sync", w.sync(true, nil), 1)
	w.want("a sync after it", w.sync(true, nil), 0)
	span := w.recorder.Ended()[0]
	if got := span.Parent().TraceID().String() + "-" + span.Parent().SpanID().String(); "00-"+got+"-01" != sampled {
		t.Errorf("the parent is %s; want %s", got, sampled)
	}
	if span.Status().Description != "no network" || span.Name() != "syncPod" {
		t.Errorf("span %q with status %v", span.Name(), span.Status())
	}
}

// TestUntraced: a change that isn't traced, or has a context that is none, ends the trace before it.
func TestUntraced(t *testing.T) {
	for _, parent := range []string{"", unsampled, "nonsense", "00-aa-bb-01"} {
		w := newWorld(t)
		w.change(client.Add, sampled)
		w.change(client.Update, parent)
		w.want("a sync after "+parent, w.sync(false, nil), 0)
	}
}

// TestChangeDuringSync: the end of a sync doesn't end the trace of a change that came meanwhile.
func TestChangeDuringSync(t *testing.T) {
	w := newWorld(t)
	w.change(client.Add, sampled)
	_, end := w.traces.Start(t.Context(), "syncPod", w.pod)
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	w.change(client.Update, sampled)
	end(true, nil)
	w.want("the sync of the later change", w.sync(true, nil), 1)
}

// TestLongest: a change whose pod never settles is traced for an hour, and then forgotten.
func TestLongest(t *testing.T) {
	w := newWorld(t)
	w.change(client.Add, sampled)
	w.clock.SetTime(w.clock.Now().Add(longest + time.Second))
	w.want("a sync after an hour", w.sync(false, nil), 0)
	w.traces.Changed(client.Change{Op: client.Add})
	if len(w.traces.changes) != 0 {
		t.Errorf("%d changes are kept; want none", len(w.traces.changes))
	}
}

// TestNothingIsTraced: nil Traces make no spans.
func TestNothingIsTraced(t *testing.T) {
	var none *Traces
	none.Changed(client.Change{})
	_, end := none.Start(t.Context(), "syncPod", &v1.Pod{})
	end(true, nil)
}
