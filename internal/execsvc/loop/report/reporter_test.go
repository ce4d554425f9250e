package report_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/report"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness has a Reporter whose reports are sent to a channel, and are answered by the test.
type harness struct {
	*report.Reporter
	clock   *clocktesting.FakeClock
	log     bytes.Buffer
	reports chan string
	answers chan error
	stop    func()

	mu      sync.Mutex
	refused []client.PodError
}

func newHarness(t *testing.T) *harness {
	h := &harness{clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), reports: make(chan string), answers: make(chan error)}
	h.Reporter = report.New(report.Config{
		Report: func(ctx context.Context, c *podconfigv1.Cursor, refused []client.PodError) error {
			if _, limited := ctx.Deadline(); !limited {
				t.Error("a report has no deadline")
			}
			text := fmt.Sprint(c.GetRevision())
			for _, p := range refused {
				text += " " + p.Name
			}
			select {
			case h.reports <- text:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-h.answers:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Clock: h.clock, Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		h.Run(ctx, func() []client.PodError {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.refused
		})
	})
	h.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(h.stop)
	return h
}

func (h *harness) refuse(names ...string) {
	h.mu.Lock()
	h.refused = nil
	for _, name := range names {
		h.refused = append(h.refused, client.PodError{Name: name})
	}
	h.mu.Unlock()
	h.Changed()
}

func (h *harness) want(t *testing.T, text string) {
	t.Helper()
	if got := <-h.reports; got != text {
		t.Errorf("the report is %q; want %q", got, text)
	}
}

// retry lets the pause after a failure pass.
func (h *harness) retry() {
	for !h.clock.HasWaiters() {
		runtime.Gosched()
	}
	h.clock.Step(time.Minute)
}

func at(revision uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: "i", Revision: revision}
}

// TestReports: each commit and each change of the rejected pods is reported; so is a repeated cursor.
func TestReports(t *testing.T) {
	h := newHarness(t)
	h.Committed(at(1))
	h.want(t, "1")
	h.answers <- nil
	h.refuse("a", "b")
	h.want(t, "1 a b")
	h.answers <- nil
	h.Committed(at(1))
	h.want(t, "1 a b")
	h.answers <- nil
	h.refuse()
	h.want(t, "1")
	h.answers <- nil
	h.stop()
	if h.log.Len() > 0 {
		t.Errorf("the log has lines, though all reports succeeded:\n%s", h.log.String())
	}
}

// TestNoCursor: there is no report before the first commit.
func TestNoCursor(t *testing.T) {
	h := newHarness(t)
	h.refuse("a")
	h.Committed(at(5))
	h.want(t, "5 a")
	h.answers <- nil
}

// TestLatestWins: changes during a report don't block, and cause one more report.
func TestLatestWins(t *testing.T) {
	h := newHarness(t)
	h.Committed(at(1))
	h.want(t, "1")
	for revision := range uint64(1000) {
		h.Committed(at(revision))
		h.refuse(fmt.Sprint("pod", revision))
	}
	h.answers <- nil
	h.want(t, "999 pod999")
	h.answers <- nil
	h.refuse("end")
	h.want(t, "999 end")
	h.answers <- nil
}

// TestAway: while podconfigd is away, reports are retried after pauses, not at each commit; this is logged once.
func TestAway(t *testing.T) {
	h := newHarness(t)
	h.Committed(at(1))
	h.want(t, "1")
	h.answers <- errors.New("away")
	for revision := uint64(2); revision < 5; revision++ {
		h.Committed(at(revision))
		h.retry()
		h.want(t, fmt.Sprint(revision))
		h.answers <- errors.New("still away")
	}
	h.retry()
	h.want(t, "4")
	h.answers <- nil
	// That report has the changes during the pauses.
	h.refuse("end")
	h.want(t, "4 end")
	h.answers <- nil
	h.stop()
	if n := strings.Count(h.log.String(), "level=WARN"); n != 1 {
		t.Errorf("the log has %d warnings; want one:\n%s", n, h.log.String())
	}
	if !strings.Contains(h.log.String(), "reports to podconfigd succeed again") {
		t.Errorf("the log has no line about the success:\n%s", h.log.String())
	}
}
