package logrotation

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// slowError is the error of a call to the runtime that has exceeded this time limit.
type slowError time.Duration

func (e slowError) Error() string {
	return fmt.Sprintf("the container runtime took longer than %v", time.Duration(e))
}

// record records the result of an attempt, and sets when the log is looked at next.
//
// A log that fails is tried again after a growing pause. This doesn't apply in an outage of the runtime, which is no log's
// own failure: all logs are then tried again after an interval, and at once when the runtime has opened a log.
func (m *Manager) record(c *containerLog, err error) {
	now := m.cfg.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	c.attended = false
	switch {
	case c.gone:
		return
	case err == nil:
		if c.failures > 1 {
			m.log.Info("the rotation of a container's log works again", m.keys(c)...)
		}
		c.failures, c.failing, c.inOutage = 0, time.Time{}, false
		c.next = c.pace.next(now, m.cfg.MaxSize, m.cfg.Interval, len(m.logs))
		return
	}
	if c.failing.IsZero() {
		c.failing = now
	}
	if c.inOutage = m.outage(c, err); c.inOutage {
		c.next = now.Add(m.cfg.Interval)
		// One failure may be that of one container.
		if m.outages++; m.outages == 2 {
			m.log.Warn("the container runtime opens no new logs; full logs grow until it does", "error", err, "retry_in", m.cfg.Interval)
		}
		return
	}
	c.failures++
	pause := backoff(c.failures, m.cfg.Interval)
	c.next = now.Add(pause)
	// One failure may be the container's end.
	if c.failures == 2 {
		m.log.Warn("can't rotate a container's log; it grows until a retry succeeds", append(m.keys(c), "error", err, "retry_in", pause)...)
	}
}

// outage reports whether the error may be that of a runtime that is down, or hangs: it has opened no other log since
// this one's first failure. The caller holds the lock.
func (m *Manager) outage(c *containerLog, err error) bool {
	var slow slowError
	return status.Code(err) == codes.Unavailable || errors.As(err, &slow) && !m.worked.After(c.failing)
}

// runtimeWorks has the logs tried again whose failures may be those of the runtime: it has opened a new log. The caller
// holds the lock.
func (m *Manager) runtimeWorks() {
	if m.outages > 1 {
		m.log.Info("the container runtime opens new logs again")
	}
	now := m.cfg.Clock.Now()
	m.worked, m.outages = now, 0
	for _, c := range m.logs {
		if c.inOutage {
			c.inOutage, c.next = false, now
		}
	}
}
