package shutdown

import (
	"cmp"
	"context"
	"time"
)

// margin is the time beyond all periods that logind is asked for: for a SIGKILL at the end of the last one, and for the
// last statuses. A delay that was configured otherwise needn't have it.
const margin = 5 * time.Second

// The pauses in which logind reads its configuration double from firstReread; there are rereads of them. They are the
// kubelet's.
const (
	firstReread = 100 * time.Millisecond
	rereads     = 5
)

// negotiate sets granted to the longest delay that logind grants. If that is less than the periods take, it asks for
// more.
func (m *Manager) negotiate(ctx context.Context, conn Logind) error {
	total := Total(m.cfg.Periods)
	granted, err := conn.MaxDelay(ctx)
	if err == nil && granted < total {
		if err := m.extend(ctx, conn, total+margin); err != nil {
			m.log.Warn("logind can't be asked for a longer delay of a shutdown", "error", err)
		}
		pause := firstReread
		for i := 0; i < rereads && err == nil && granted < total; i++ {
			m.sleep(ctx, pause)
			pause *= 2
			granted, err = conn.MaxDelay(ctx)
		}
	}
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if granted < total && granted != m.granted {
		m.log.Warn("logind delays a shutdown for less than the configured grace periods: they are shortened in proportion; "+
			"set InhibitDelayMaxSec in logind.conf", "granted", granted, "want", total)
	}
	m.granted = granted
	return nil
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
