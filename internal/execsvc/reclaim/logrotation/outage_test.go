package logrotation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// running runs the manager until stop is called.
func (m *Manager) running(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	return func() { cancel(); <-done }
}

// However long the runtime was down, all full logs are rotated soon afterwards. Two lines are logged, whatever the number
// of logs.
func TestOutage(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"it is down": func(context.Context) error { return status.Error(codes.Unavailable, "down") },
		"it hangs":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ids := []string{"a", "b", "c"}
				s := newSite(t, ids...)
				s.before = func(ctx context.Context, _ string) error { return fail(ctx) }
				m := s.manager(Config{})
				stop := m.running(t)
				for _, id := range ids {
					s.write(id, 20)
				}
				time.Sleep(27 * time.Minute)
				s.mu.Lock()
				s.before = nil
				s.mu.Unlock()
				// A call that hangs takes its time limit, and the next one follows after an interval.
				time.Sleep(m.cfg.ReopenTimeout + m.cfg.Interval + time.Second)
				synctest.Wait()
				stop()
				for _, id := range ids {
					if len(s.files(id)) != 2 {
						t.Errorf("%s has the files %q", id, s.files(id))
					}
					s.wantLines(id, 1)
				}
				lines := strings.Split(strings.TrimSpace(s.logged()), "\n")
				if len(lines) != 2 || !strings.Contains(lines[0], "opens no new logs") || !strings.Contains(lines[1], "opens new logs again") {
					t.Errorf("the log is %q; want two lines", lines)
				}
			})
		})
	}
}

// Logs whose pause is long because of an outage are tried at once when the runtime has opened another one.
func TestFirstSuccessAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a", "b")
		s.before = func(context.Context, string) error { return status.Error(codes.Unavailable, "down") }
		m := s.manager(Config{Interval: time.Hour})
		s.write("a", 20)
		s.write("b", 20)
		m.round(t.Context())
		s.before = nil
		m.attend(t.Context(), m.logs["a"])
		if !m.logs["b"].next.Equal(time.Now()) || m.logs["b"].failures != 0 {
			t.Errorf("the other log is tried in %v, after %d failures", time.Until(m.logs["b"].next), m.logs["b"].failures)
		}
	})
}

// Containers whose logs the runtime doesn't answer about hold a worker for a moment each, and not for the time limit.
func TestManyReopensHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hung = 30
		s := newSite(t, "good")
		for i := range hung {
			s.start(fmt.Sprintf("hung-%d", i))
		}
		s.before = func(ctx context.Context, id string) error {
			if id != "good" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		m := s.manager(Config{})
		stop := m.running(t)
		for i := range hung {
			s.write(fmt.Sprintf("hung-%d", i), 20)
		}
		longest := time.Duration(0)
		for range 100 {
			s.write("good", 10)
			before, began := s.requests("good"), time.Now()
			for s.requests("good") == before && time.Since(began) < 10*time.Minute {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			longest = max(longest, time.Since(began))
		}
		stop()
		if limit := 8 * time.Second; longest > limit {
			t.Errorf("the other container waited for %v; want %v at most", longest, limit)
		}
		s.wantLines("good", s.writers["good"].last)
	})
}

// An ended container's log isn't attended to again and again, although the runtime was to open a new one.
func TestReopenAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a")
		m := s.manager(Config{})
		m.round(t.Context())
		m.logs["a"].reopen = true
		s.exit("a")
		m.round(t.Context())
		for range 3 {
			time.Sleep(time.Minute)
			m.lookAtAll(time.Now())
			if n := len(m.due.logs); n != 0 {
				t.Fatalf("%d logs are due", n)
			}
		}
	})
}
