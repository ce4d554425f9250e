package shutdown

import (
	"context"
	"time"
)

// margin is the time beyond all periods that logind is asked for: for a SIGKILL at the end of the last one, and for the
// last statuses. A delay that was configured otherwise needn't have it.
const margin = 5 * time.Second

// logind reads its configuration a moment after it was asked to. It is asked again in pauses of rereadPeriod, and what it
// grants after rereadTime counts.
const rereadPeriod, rereadTime = 200 * time.Millisecond, 3 * time.Second

// negotiate asks logind for more if it grants less than the periods take, once in a connection. It waits for nothing:
// meanwhile a shutdown is delayed for as long as logind grants.
func (m *Manager) negotiate(ctx context.Context, conn Logind, granted time.Duration) {
	total := Total(m.cfg.Periods)
	switch {
	case granted >= total:
		m.short = total
	case m.extended.IsZero():
		if err := m.extend(ctx, conn, total+margin); err != nil {
			m.log.Warn("logind can't be asked for a longer delay of a shutdown", "error", err)
		}
		m.extended = m.cfg.Clock.Now()
	case !m.rereads() && granted != m.short:
		m.short = granted
		m.log.Warn("logind delays a shutdown for less than the configured grace periods: they are shortened in proportion; "+
			"set InhibitDelayMaxSec in logind.conf", "granted", granted, "want", total)
	}
}

// rereads reports whether logind may still grant more, because it reads its configuration.
func (m *Manager) rereads() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.granted < Total(m.cfg.Periods) && !m.extended.IsZero() && m.cfg.Clock.Since(m.extended) < rereadTime
}

func (m *Manager) extend(ctx context.Context, logind Logind, delay time.Duration) error {
	if err := logind.SetMaxDelay(delay); err != nil {
		return err
	}
	return logind.Reload(ctx)
}

func (m *Manager) sleep(ctx context.Context, d time.Duration) {
	timer := m.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
