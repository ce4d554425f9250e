package shutdown

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/execsvc/machine/logind"
	"github.com/podstream/podstream/internal/retry"
)

const (
	// The pause before logind is connected to again doubles from firstPause to lastPause. It is reset once a connection
	// has lasted for lastPause. A shutdown that begins in a pause is noticed after it.
	firstPause, lastPause = time.Second, 4 * time.Second
	// askPeriod is the time after which logind is asked without a signal: one that hangs sends none. cancelPeriod is that
	// time during a shutdown: logind sends no signal when shutdown -c cancels one that is delayed (seen in systemd 257).
	askPeriod, cancelPeriod = 30 * time.Second, time.Second
	// quiet is the least time between two such questions, however many signals there are.
	quiet = 100 * time.Millisecond
)

// errLost is the end of a connection that worked.
var errLost = errors.New("the connection to logind has ended, or logind was restarted")

// Run delays shutdowns, and ends the pods before them, until ctx ends. The lock ends with it.
func (m *Manager) Run(ctx context.Context, pods Pods) {
	if len(m.cfg.Periods) == 0 {
		return
	}
	m.pods = pods
	defer m.release()
	defer m.record.writing.Wait()
	defer m.draining.Wait()
	defer func() { m.stopDrain() }()
	m.record.load()
	if rest := m.record.rest(Total(m.cfg.Periods)); rest > 0 {
		m.presume(rest)
	}
	pauses := newPauses()
	var began time.Time
	_ = retry.Run(ctx, m.cfg.Clock, func(ctx context.Context) error {
		began = m.cfg.Clock.Now()
		return m.follow(ctx)
	}, func(err error) (time.Duration, error) {
		if m.cfg.Clock.Since(began) >= lastPause {
			pauses = newPauses()
		}
		pause := pauses.Step()
		m.failed(err, pause)
		return pause, nil
	})
}

func newPauses() *wait.Backoff {
	return &wait.Backoff{Duration: firstPause, Factor: 2, Steps: 10, Cap: lastPause}
}

// follow connects to logind, takes a lock, and follows logind's state until the connection ends.
func (m *Manager) follow(ctx context.Context) error {
	conn, err := m.cfg.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	m.extended = time.Time{}
	// Also if an earlier lock is held: a logind that was restarted may not have it.
	locked, err := m.ask(ctx, conn, false)
	for err == nil {
		m.sleep(ctx, quiet)
		timer := m.cfg.Clock.NewTimer(m.period())
		select {
		case <-conn.Changed():
			locked, err = m.ask(ctx, conn, locked)
		case <-timer.C():
			locked, err = m.ask(ctx, conn, locked)
		case <-conn.Lost():
			err = errLost
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
	}
	return err
}

// period returns the time after which logind is asked without a signal.
func (m *Manager) period() time.Duration {
	switch {
	case m.Status() != nil:
		return cancelPeriod
	case m.rereads():
		return rereadPeriod
	}
	return askPeriod
}

// ask asks logind whether a shutdown is prepared, and for its longest delay, and acts upon both. If no shutdown is
// prepared, it takes a lock unless one is held.
func (m *Manager) ask(ctx context.Context, conn Logind, held bool) (locked bool, err error) {
	preparing, err := conn.Preparing(ctx)
	if err != nil {
		return held, err
	}
	granted, unclear := conn.MaxDelay(ctx)
	if unclear == nil {
		m.grant(granted)
	}
	m.set(ctx, preparing)
	if preparing {
		return false, nil
	}
	if !held {
		lock, err := conn.Inhibit(ctx)
		if errors.Is(err, logind.ErrUnderWay) {
			// It has begun since.
			if preparing, err := conn.Preparing(ctx); err == nil && preparing {
				m.set(ctx, true)
				return false, nil
			}
		}
		if err != nil {
			return false, err
		}
		m.hold(lock)
	}
	if unclear != nil {
		return true, unclear
	}
	m.negotiate(ctx, conn, granted)
	m.recovered()
	return true, nil
}

// failed records why a shutdown can't be delayed, and logs each new reason.
func (m *Manager) failed(err error, pause time.Duration) {
	m.mu.Lock()
	again := m.trouble != nil && m.trouble.Error() == err.Error()
	m.trouble = err
	over := !m.cfg.Clock.Now().Before(m.presumed) && m.forget()
	m.mu.Unlock()
	if over {
		m.cfg.Changed()
	}
	m.knownOnce.Do(func() { close(m.known) })
	switch {
	case errors.Is(err, errLost):
		m.log.Info("connecting to logind again", "reason", err, "retry_in", pause)
	case !again:
		m.log.Warn("a shutdown of the machine can't be delayed, so pods would end as the init system ends them; trying again",
			"error", err, "retry_in", pause)
	}
}

// recovered records that a shutdown can be delayed, once it is known for how long.
func (m *Manager) recovered() {
	if m.rereads() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trouble != nil {
		m.log.Info("a shutdown of the machine is delayed until the pods have ended", "at_most", min(m.granted, Total(m.cfg.Periods)))
	}
	m.trouble = nil
}
