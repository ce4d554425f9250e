package logrotation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Logs are rotated, compressed and removed, and no line of those that are kept is lost.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a", "b")
		m := s.manager(Config{})
		for range 20 {
			s.write("a", 12)
			s.write("b", 2)
			m.round(t.Context())
			time.Sleep(time.Second)
		}
		if n := s.requests("a"); n != 20 {
			t.Errorf("%d rotations; want 20", n)
		}
		if n := s.requests("b"); n != 4 {
			t.Errorf("%d rotations of the slow one; want 4", n)
		}
		if all, gz := len(s.files("a")), s.count("a", ".gz"); all != 5 || gz != 3 {
			t.Errorf("the files are %q; want 5, 3 of them compressed", s.files("a"))
		}
		s.wantLines("a", 20*12-4*12+1)
		s.wantLines("b", 1)
		info, err := os.Stat(filepath.Join(s.writers["a"].dir, s.files("a")[1]))
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("a compressed log has the mode %v, %v; want the log's", info.Mode(), err)
		}
		if s.logged() != "" {
			t.Error(s.logged())
		}
	})
}

// Rotations of one second, and after the clock was set back, keep their order.
func TestManyRotationsInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a")
		m := s.manager(Config{MaxFiles: 4})
		for range 12 {
			s.write("a", 10)
			m.round(t.Context())
		}
		if len(s.files("a")) != 4 {
			t.Errorf("the files are %q; want 4", s.files("a"))
		}
		s.wantLines("a", 12*10-3*10+1)
	})
}

// Run rotates each log when it is full, however fast the container writes, and no log much later.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "fast", "slow", "quiet")
		m := s.manager(Config{MaxSize: 100_000})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		largest := int64(0)
		for range 1000 { // 10 s
			s.write("fast", 100)
			s.write("slow", 1)
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			info, err := os.Stat(s.writers["fast"].path)
			check(t, err)
			largest = max(largest, info.Size())
		}
		cancel()
		<-done
		// It writes a megabyte in a second.
		if n := s.requests("fast"); n < 60 || n > 100 {
			t.Errorf("%d rotations of the fast one; want about one for each 100,000 bytes", n)
		}
		if n := s.requests("slow"); n != 1 && n != 0 {
			t.Errorf("%d rotations of the slow one", n)
		}
		if limit := int64(100_000 + 60_000); largest > limit {
			t.Errorf("a log was %d bytes; want %d at most", largest, limit)
		}
		s.wantLines("fast", s.writers["fast"].last)
	})
}

// A negative size means that no log is rotated.
func TestOff(t *testing.T) {
	s := newSite(t, "a")
	s.write("a", 100)
	s.manager(Config{MaxSize: -1}).Run(t.Context())
	if got := s.files("a"); !slices.Equal(got, []string{"0.log"}) {
		t.Errorf("%q", got)
	}
}

// If the runtime doesn't reopen the log, the log keeps its name, the attempts become rare, and two lines are logged: one
// when it has failed again, and one when it works again.
func TestReopenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a")
		s.before = func(context.Context, string) error { return errors.New("no") }
		m := s.manager(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		s.write("a", 20)
		for range 60 {
			time.Sleep(time.Minute)
			synctest.Wait()
			s.write("a", 1)
			if got := s.files("a"); !slices.Equal(got, []string{"0.log"}) {
				t.Fatalf("the files are %q", got)
			}
		}
		// 10, 20, 40, 80, 160 s, and then 5 min.
		if n := s.requests("a"); n < 14 || n > 18 {
			t.Errorf("%d attempts in an hour; want about 16", n)
		}
		if lines := strings.Split(strings.TrimSpace(s.logged()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "retry_in=20s") ||
			!strings.Contains(lines[0], "pod=default/a uid=uid-a container=main id=a file=default_a_uid-a/main/0.log") || !strings.Contains(lines[0], "reopen the log: no") {
			t.Errorf("the log is %q; want one line", lines)
		}
		s.mu.Lock()
		s.before = nil
		s.mu.Unlock()
		time.Sleep(maxBackoff + time.Second)
		synctest.Wait()
		cancel()
		<-done
		if lines := strings.Split(strings.TrimSpace(s.logged()), "\n"); len(lines) != 2 || !strings.Contains(lines[1], "works again") {
			t.Errorf("the log is %q; want two lines", lines)
		}
		if len(s.files("a")) != 2 {
			t.Errorf("the files are %q", s.files("a"))
		}
		s.wantLines("a", 1)
	})
}

// A container whose log the runtime doesn't answer about delays the others by the time limit, once in each of its pauses.
// It isn't queued meanwhile.
func TestReopenHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "hung", "good")
		s.before = func(ctx context.Context, id string) error {
			if id == "hung" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		m := s.manager(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		longest := time.Duration(0)
		s.write("hung", 20)
		for range 200 {
			s.write("hung", 1)
			s.write("good", 10)
			before, began := s.requests("good"), time.Now()
			for s.requests("good") == before && time.Since(began) < time.Minute {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			longest = max(longest, time.Since(began))
			time.Sleep(time.Second)
		}
		cancel()
		<-done
		if longest > m.cfg.ReopenTimeout+2*time.Second {
			t.Errorf("the other container waited for %v", longest)
		}
		if n := s.requests("hung"); n < 2 || n > 10 {
			t.Errorf("%d requests for the hung one", n)
		}
		if !strings.Contains(s.logged(), "the container runtime took longer than 10s") {
			t.Error(s.logged())
		}
		if got := s.files("hung"); !slices.Equal(got, []string{"0.log"}) {
			t.Errorf("the files of the hung one are %q", got)
		}
		s.wantLines("hung", 1)
		s.wantLines("good", s.writers["good"].last)
	})
}

// A runtime that has made the new log, and whose answer is lost, is asked again. Nothing is lost.
func TestReopenedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a")
		s.late = true
		s.before = func(context.Context, string) error { return errors.New("too late") }
		m := s.manager(Config{})
		s.write("a", 20)
		m.round(t.Context())
		s.write("a", 1)
		if len(s.files("a")) != 2 || !m.logs["a"].reopen {
			t.Errorf("the files are %q, and it is to be reopened: %v", s.files("a"), m.logs["a"].reopen)
		}
		s.before = nil
		m.round(t.Context())
		s.write("a", 1)
		if s.requests("a") != 2 || m.logs["a"].reopen || m.logs["a"].failures != 0 {
			t.Errorf("after the second request: %+v", m.logs["a"])
		}
		s.wantLines("a", 1)
	})
}

// Between the rename and the answer of the runtime the container ends, or its files are removed.
func TestContainerEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "ended", "removed")
		s.before = func(_ context.Context, id string) error {
			s.exit(id)
			if id == "removed" {
				check(t, os.RemoveAll(s.writers[id].dir))
				return errors.New("not found")
			}
			return nil
		}
		m := s.manager(Config{})
		s.write("ended", 20)
		s.write("removed", 20)
		for range 3 {
			m.round(t.Context())
		}
		if got := s.files("ended"); !slices.Equal(got, []string{"0.log"}) {
			t.Errorf("the files are %q", got)
		}
		s.wantLines("ended", 1)
		if s.logged() != "" {
			t.Error(s.logged())
		}
		s.mu.Lock()
		s.pods = nil
		s.mu.Unlock()
		m.round(t.Context())
		if len(m.logs) != 0 {
			t.Errorf("%d logs are left", len(m.logs))
		}
	})
}
