package shutdown

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/metrictest"
)

const s = time.Second

// The parts of a shutdown's events that all tests have.
const (
	detected  = "0 Shutdown: Shutdown manager detected shutdown event"
	cancelled = "0 Shutdown: Shutdown manager detected shutdown cancellation"
	changed   = "0 changed"
)

func (w *world) wantAdmitted(want bool) {
	w.t.Helper()
	why, refused := w.m.Admit(&v1.Pod{})
	if refused == want {
		w.t.Errorf("a pod is admitted: %v; want %v", !refused, want)
	}
	if refused && (why != admit.Rejection{Reason: "NodeShutdown", Message: "Pod was rejected as the node is shutting down.", Transient: true}) {
		w.t.Errorf("it is rejected with %+v", why)
	}
	if err := w.m.Status(); (err == nil) != want || err != nil && err.Error() != "node is shutting down" {
		w.t.Errorf("the node's status is %v", err)
	}
}

// Groups end one after the other, each until its pods are gone or its time is over. Then the machine goes down.
func TestShutdown(t *testing.T) {
	pods := []string{"quick 0 30 3", "short 0 2 1", "late 2000000000 30 20", "low -1 30 1"}
	inWorld(t, Periods(30*s, 10*s), time.Hour, pods, func(w *world) {
		w.wantLocks(1)
		w.wantAdmitted(true)
		w.prepare(true)
		w.wantAdmitted(false)
		w.want(12*s, changed, detected, "0 end low 20", "0 end quick 20", "0 end short 2", "3 end late 10")
		w.wantLocks(1)
		w.wantLogged("is over before all have ended", 0)
		// The group's time is over at 13 s; what is left may end within a moment.
		w.want(2 * s)
		w.wantLogged("is over before all have ended", 1)
		w.want(2*s+500*time.Millisecond, "16 unlocked")
		w.wantLocks(0)
		w.wantLogged("the machine goes down before all pods have ended", 1)
		w.wantAdmitted(false)
		w.want(time.Minute)
	})
}

// A group without pods takes no time, and all pods that end early shorten the shutdown.
func TestShutdownIsNoLongerThanThePods(t *testing.T) {
	inWorld(t, []Period{{0, 100 * s}, {10, 50 * s}, {20, 50 * s}}, time.Hour, []string{"a 0 30 2", "b 20 30 4"}, func(w *world) {
		w.prepare(true)
		w.want(time.Minute, changed, detected, "0 end a 30", "2 end b 30", "6 unlocked")
		w.wantLogged("all pods have ended; the machine goes down", 1)
	})
	inWorld(t, Periods(10*s, 0), time.Hour, nil, func(w *world) {
		w.prepare(true)
		w.want(s, changed, detected, "0 unlocked")
	})
}

// A lock is held again once a shutdown was cancelled. Pods are admitted again, and those that weren't ended stay.
func TestCancellation(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 8", "b 2000000000 30 1"}, func(w *world) {
		w.prepare(true)
		w.want(4*s, changed, detected, "0 end a 20")
		w.prepare(false)
		w.want(time.Minute, changed, cancelled)
		w.wantAdmitted(true)
		w.wantLocks(1)
		w.prepare(true)
		w.want(5*s, changed, detected, "0 end b 10", "1 unlocked")
		w.prepare(false)
		w.want(s, changed, cancelled)
		w.wantLocks(1)
	})
}

// shutdown -c cancels a delayed shutdown without a signal.
func TestSilentCancellation(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 8", "b 2000000000 30 1"}, func(w *world) {
		w.prepare(true)
		w.want(4*s, changed, detected, "0 end a 20")
		w.set(func() { w.preparing, w.started = false, time.Now() })
		w.want(2*s, changed, cancelled)
		w.wantAdmitted(true)
		w.wantLocks(1)
	})
}

// If logind grants less, it is asked for more, with a margin. If it doesn't grant that, the periods are shortened.
func TestDelay(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), 5*s, []string{"a 0 30 1"}, func(w *world) {
		w.want(2 * s)
		if w.wantLocks(1); w.asked != 35*s {
			t.Errorf("logind was asked for %v; want 35s", w.asked)
		}
		w.prepare(true)
		w.want(5*s, changed, detected, "0 end a 20", "1 unlocked")
	})
	inWorld(t, Periods(30*s, 10*s), 30*s, nil, func(w *world) {
		if w.want(2 * s); w.asked != 0 {
			t.Errorf("logind grants enough, and was asked for %v", w.asked)
		}
	})
	inWorld(t, Periods(30*s, 15*s), 10*s, []string{"a 0 30 60", "b 2000000000 30 60"}, func(w *world) {
		w.stop()
		w.set(func() { w.settable = false })
		w.run()
		w.want(5 * s)
		w.wantLogged("logind delays a shutdown for less than the configured grace periods", 1)
		w.prepare(true)
		w.want(time.Minute, changed, detected, "0 end a 5", "5 end b 5", "10 unlocked")
	})
}

// Without logind podexecd works. It says why a shutdown isn't delayed, once, and goes on trying.
func TestNoLogind(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, nil, func(w *world) {
		w.stop()
		w.set(func() { w.away = errors.New("no bus") })
		w.run()
		w.m.Await(w.t.Context())
		w.wantAdmitted(true)
		w.want(time.Hour)
		if err := w.m.Trouble(); err == nil || err.Error() != "no bus" {
			t.Errorf("the trouble is %v", err)
		}
		w.wantLogged("so pods would end as the init system ends them", 1)
		w.set(func() { w.away = nil })
		w.want(2 * time.Minute)
		w.wantLocks(1)
		if err := w.m.Trouble(); err != nil {
			t.Errorf("the trouble is %v", err)
		}
		w.wantLogged("a shutdown of the machine is delayed until the pods have ended", 2)
	})
}

// A lock is held over a restart of logind, or of the bus, and taken again after it.
func TestLostConnection(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 1"}, func(w *world) {
		w.set(func() { w.away = errors.New("gone") })
		w.lose()
		w.want(10 * s)
		w.wantLocks(1)
		w.set(func() { w.away = nil })
		w.want(2 * time.Minute)
		w.wantLocks(1)
		w.prepare(true)
		w.want(5*s, changed, detected, "0 end a 20", "1 unlocked")
	})
}

// A shutdown goes on while the bus is away: it isn't cancelled by silence.
func TestLostConnectionDuringShutdown(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 5", "b 2000000000 30 1"}, func(w *world) {
		w.prepare(true)
		w.set(func() { w.away = errors.New("gone") })
		w.lose()
		w.want(30*s, changed, detected, "0 end a 20", "5 end b 10", "6 unlocked")
		w.wantAdmitted(false)
	})
}

// A hung logind sends no signal: it is asked from time to time.
func TestNoSignal(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, nil, func(w *world) {
		w.want(s)
		w.set(func() { w.preparing, w.started = true, time.Now() })
		w.want(29*s+500*time.Millisecond, "29 Shutdown: Shutdown manager detected shutdown event", "29 changed", "29 unlocked")
	})
}

// A shutdown that begins before a lock is taken isn't delayed, and pods end all the same.
func TestShutdownBeforeTheLock(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 1"}, func(w *world) {
		w.stop()
		w.set(func() { w.preparing = true })
		w.run()
		w.m.Await(w.t.Context())
		w.wantAdmitted(false)
		w.want(5*s, changed, detected, "0 end a 20")
		w.wantLocks(0)
	})
}

// After a restart in the middle of a shutdown, pods end in the rest of the time, once they are known.
func TestRestartDuringShutdown(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), 30*s, []string{"a 0 60 60", "b 2000000000 60 60"}, func(w *world) {
		w.prepare(true)
		w.want(15*s, changed, detected, "0 end a 20")
		w.stop()
		w.set(func() { w.restored, w.did = make(chan struct{}), nil })
		w.run()
		w.want(time.Second, changed, detected)
		close(w.restored)
		// 14 of 30 s are left.
		w.want(20*s, "1 end a 9", "10 end b 4")
		w.wantAdmitted(false)
	})
}

// The last statuses are awaited for a moment only.
func TestUnreportedStatuses(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 1"}, func(w *world) {
		w.set(func() { w.reported = false })
		w.prepare(true)
		w.want(3*s, changed, detected, "0 end a 20")
		w.want(2*s, "4 unlocked")
	})
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 1"}, func(w *world) {
		w.set(func() { w.reported = false })
		w.prepare(true)
		w.want(2*s, changed, detected, "0 end a 20")
		w.set(func() { w.reported = true })
		w.want(s, "2 unlocked")
	})
}

// The times of the last shutdown are in the kubelet's file, and in its metrics, also after the boot.
func TestStateFile(t *testing.T) {
	inWorld(t, Periods(30*s, 10*s), time.Hour, []string{"a 0 30 7"}, func(w *world) {
		w.stop()
		restart := func() *prometheus.Registry {
			metrics := prometheus.NewRegistry()
			w.cfg.Metrics = metrics
			w.run()
			return metrics
		}
		wantTimes := func(r *prometheus.Registry, start, end time.Time) {
			t.Helper()
			want := map[string]float64{"kubelet_graceful_shutdown_start_time_seconds": float64(start.Unix()), "kubelet_graceful_shutdown_end_time_seconds": 0}
			if !end.IsZero() {
				want["kubelet_graceful_shutdown_end_time_seconds"] = float64(end.Unix())
			}
			metrictest.Want(t, r, want)
		}
		metrics, began := restart(), time.Now()
		w.prepare(true)
		w.want(s, changed, detected, "0 end a 20")
		read := func() string {
			text, err := os.ReadFile(w.cfg.StateFile)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		if text := read(); !strings.Contains(text, `"startTime":"2000-01-01T`) || !strings.Contains(text, `"endTime":"0001-01-01T00:00:00Z"`) {
			t.Errorf("during the shutdown: %s", text)
		}
		wantTimes(metrics, began, time.Time{})
		w.want(10*s, "7 unlocked")
		wantTimes(metrics, began, began.Add(7*s))
		if text := read(); strings.Count(text, `"2000-01-01T`) != 2 {
			t.Errorf("after the shutdown: %s", text)
		}
		w.stop()
		w.set(func() { w.preparing = false })
		wantTimes(restart(), began, began.Add(7*s))
		if took := w.m.record.last.End.Sub(w.m.record.last.Start); took < 7*s || took > 8*s {
			t.Errorf("after the boot the shutdown took %v; want 7s", took)
		}
	})
}

// Without the settings nothing runs, and nothing is delayed.
func TestOff(t *testing.T) {
	inWorld(t, nil, time.Hour, []string{"a 0 30 1"}, func(w *world) {
		w.m.Await(w.t.Context())
		w.wantLocks(0)
		w.prepare(true)
		w.want(time.Minute)
		w.wantAdmitted(true)
	})
}
