package pace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asking is the error of a response that asks to wait.
type asking time.Duration

func (a asking) Error() string             { return "busy" }
func (a asking) RetryAfter() time.Duration { return time.Duration(a) }

func TestPace(t *testing.T) {
	const middle = 0.5 // No jitter.
	failed, busy := errors.New("failed"), asking(90*time.Second)
	for _, c := range []struct {
		name   string
		every  time.Duration
		random float64
		// failures is the number of earlier failures.
		failures int
		took     time.Duration
		err      error
		want     time.Duration
	}{
		{"regular", 20 * time.Second, middle, 0, 0, nil, 20 * time.Second},
		{"regular, early", 20 * time.Second, 0, 0, 0, nil, 18 * time.Second},
		{"after failures", 20 * time.Second, middle, 9, 0, nil, 20 * time.Second},
		{"from the beginning of the request", 20 * time.Second, middle, 0, 5 * time.Second, nil, 15 * time.Second},
		{"a long request", 20 * time.Second, middle, 0, time.Minute, nil, time.Second},
		{"a long request, asked often", time.Second / 2, middle, 0, time.Minute, nil, time.Second / 2},
		{"first failure", 20 * time.Second, middle, 0, 0, failed, 2 * time.Second},
		{"third failure", 20 * time.Second, middle, 2, 0, failed, 8 * time.Second},
		{"third failure, early", 20 * time.Second, 0, 2, 0, failed, 7200 * time.Millisecond},
		{"fifth failure", 20 * time.Second, middle, 4, 0, failed, 20 * time.Second},
		{"failing for months", 20 * time.Second, middle, 1 << 20, 0, failed, 20 * time.Second},
		{"failing for months, asked rarely", 10 * 24 * time.Hour, middle, 30, 0, failed, 10 * 24 * time.Hour},
		{"asked often", time.Second, middle, 0, 0, failed, time.Second},
		{"told when", 20 * time.Second, 0, 3, 0, busy, 90 * time.Second},
		{"told when, late", 20 * time.Second, middle, 3, 5 * time.Second, busy, 94500 * time.Millisecond},
		{"told when, sooner than the backoff", 20 * time.Second, middle, 2, 0, asking(time.Second), 8 * time.Second},
		{"told when, asked rarely", time.Hour, middle, 20, 0, busy, time.Hour},
		{"told when, at most", 20 * time.Second, middle, 0, 0, asking(MaxRetryAfter), MaxRetryAfter},
	} {
		p := New(c.every, func() float64 { return c.random })
		for range c.failures {
			p.Next(0, failed)
		}
		if got := p.Next(c.took, c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"soon", "", 0},
		{"-1", "", 0},
		{"0", "", time.Second},
		{"30", "", 30 * time.Second},
		{"999999999999", "", 0},
		{"2000000000", "", 5 * time.Minute},
		{"Fri, 02 Jan 2026 03:05:05 GMT", "", time.Minute},
		// The server's clock is an hour late.
		{"Fri, 02 Jan 2026 02:04:45 GMT", "Fri, 02 Jan 2026 02:04:05 GMT", 40 * time.Second},
		{"Fri, 02 Jan 2026 03:04:00 GMT", "", time.Second},
		{"Sat, 03 Jan 2026 03:04:00 GMT", "", 5 * time.Minute},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.value)
		h.Set("Date", c.date)
		if got := RetryAfter(h, now); got != c.want {
			t.Errorf("%q at %q: %v, want %v", c.value, c.date, got, c.want)
		}
	}
}

// TestWrappedRetryAfter: an error that wraps one with a wait asks for it too.
func TestWrappedRetryAfter(t *testing.T) {
	p := New(20*time.Second, func() float64 { return 0 })
	if got := p.Next(0, fmt.Errorf("GET: %w", asking(time.Minute))); got != time.Minute {
		t.Errorf("the next request is after %v; want a minute", got)
	}
}

// TestLimit: the context ends after the timeout, with that cause; and at once when its caller ends it.
func TestLimit(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	ctx, end := Limit(t.Context(), clk, time.Minute)
	clk.Step(time.Minute - 1)
	if ctx.Err() != nil {
		t.Error("the context ended early")
	}
	clk.Step(1)
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		t.Errorf("the cause is %v", cause)
	}
	end()

	ctx, end = Limit(t.Context(), clk, time.Minute)
	end()
	if cause := context.Cause(ctx); ctx.Err() == nil || errors.Is(cause, context.DeadlineExceeded) {
		t.Errorf("after its end, the context is %v, by %v", ctx.Err(), cause)
	}
}
