package syncloop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/cri/pleg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type harness struct {
	*Loop
	t       *testing.T
	handler *fakeHandler
	clock   *testingclock.FakeClock
	ready   chan struct{}
	// events are those of the pleg; probed are the pods whose probes have new results.
	events      []pleg.Event
	probed      []types.UID
	probesReady chan struct{}
	pulses      chan chan<- struct{}
	log         *bytes.Buffer
	cancel      context.CancelFunc
}

// run runs a test in a synctest bubble with a running Loop. There was no relist yet.
func run(t *testing.T, test func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{
			t: t, handler: &fakeHandler{}, clock: testingclock.NewFakeClock(time.Unix(1000, 0)),
			ready: make(chan struct{}, 1), probesReady: make(chan struct{}, 1), log: &bytes.Buffer{},
			pulses: make(chan chan<- struct{}),
		}
		h.Loop = New(Config{
			Handler: h.handler, Ready: h.ready, Clock: h.clock, Logger: slog.New(slog.NewTextHandler(h.log, nil)),
			Take: func() []pleg.Event {
				events := h.events
				h.events = nil
				return events
			},
			ProbesReady: h.probesReady,
			TakeProbes: func() []types.UID {
				probed := h.probed
				h.probed = nil
				return probed
			},
			Begin: func() { h.handler.note("begin") }, Pulses: h.pulses,
		})
		ctx, cancel := context.WithCancel(t.Context())
		h.cancel = cancel
		var group sync.WaitGroup
		group.Go(func() { h.Run(ctx) })
		defer group.Wait()
		defer cancel()
		synctest.Wait()
		test(h)
	})
}

// see makes the pleg ready with events; with none, it stands for the first relist.
func (h *harness) see(events ...pleg.Event) {
	h.events = append(h.events, events...)
	h.ready <- struct{}{}
	synctest.Wait()
}

// probe makes probes of these pods have new results.
func (h *harness) probe(uids ...types.UID) {
	h.probed = append(h.probed, uids...)
	h.probesReady <- struct{}{}
	synctest.Wait()
}

// listed stands for a first relist without pods.
func (h *harness) listed() {
	h.t.Helper()
	h.see()
	h.want("begin")
}

// want waits until the loop is blocked, and checks the calls since the last time.
func (h *harness) want(calls ...string) {
	h.t.Helper()
	synctest.Wait()
	h.handler.mu.Lock()
	defer h.handler.mu.Unlock()
	if !slices.Equal(h.handler.calls, calls) {
		h.t.Fatalf("calls %q; want %q", h.handler.calls, calls)
	}
	h.handler.calls = nil
}

// deliver calls Deliver in another goroutine.
func (h *harness) deliver(ctx context.Context, e client.Event) <-chan error {
	done := make(chan error, 1)
	go func() { done <- h.Deliver(ctx, e) }()
	synctest.Wait()
	return done
}

func (h *harness) wantPending(done <-chan error) {
	h.t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		h.t.Fatalf("Deliver has returned (%v)", err)
	default:
	}
}

func (h *harness) wantDone(done <-chan error, want error) {
	h.t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			h.t.Fatalf("Deliver: %v; want %v", err, want)
		}
	default:
		h.t.Fatal("Deliver hasn't returned")
	}
}

func change(op client.Op, source string, ready bool, uids ...types.UID) client.Change {
	c := client.Change{Op: op, Source: source, SourceReady: ready}
	for _, uid := range uids {
		p := client.Pod{UID: uid, Namespace: "default", Name: "pod-" + string(uid), Source: source}
		if op != client.Remove {
			p.Object = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: "pod-" + string(uid)}}
		}
		c.Pods = append(c.Pods, p)
	}
	return c
}
