package logrotation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/podstream/podstream/internal/execsvc/cri/logdir"
	"github.com/podstream/podstream/internal/failpoint"
)

// maxNames is how many names are tried for a rotated log. Only a process that creates files of those names meanwhile
// makes a second one necessary.
const maxNames = 10

// attend repairs and rotates one log, and records the result.
func (m *Manager) attend(ctx context.Context, c *containerLog) {
	err := m.serve(ctx, c)
	if ctx.Err() != nil {
		return
	}
	m.record(c, err)
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *Manager) keys(c *containerLog) []any {
	return []any{"pod", c.pod, "uid", c.uid, "container", c.container, "id", c.id, "file", c.name}
}

// serve does for one log what is due.
func (m *Manager) serve(ctx context.Context, c *containerLog) error {
	l, err := logdir.Open(m.cfg.LogsDir, c.name)
	m.mu.Lock()
	running, repaired, reopen := c.running, c.repaired, c.reopen
	m.mu.Unlock()
	if missing(err) && !running {
		m.set(func() { c.repaired = true })
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Close()
	st, err := l.Stat(l.Name)
	// A podexecd that was killed may not have recorded that the runtime still writes to the rotated log.
	reopen = running && (reopen || !repaired && newestIsWritten(l))
	if missing(err) || err == nil && reopen {
		if err := m.restore(ctx, c, l, running); err != nil {
			return err
		}
		st, err = l.Stat(l.Name)
	}
	if err != nil && (running || !missing(err)) {
		return err
	}
	full := running && st.Size > 0 && st.Size >= m.cfg.MaxSize
	if !full && repaired {
		return nil
	}
	keep := m.cfg.MaxFiles - 1
	if full {
		// The log itself becomes a rotated one, and the runtime makes a new one.
		keep--
	}
	list, listErr := l.Rotated()
	if listErr != nil && !errors.Is(listErr, logdir.ErrTooManyFiles) {
		return fmt.Errorf("list the rotated logs: %w", listErr)
	}
	// A temporary file in the list is either this one, or left over.
	busy := ""
	m.set(func() { busy = c.busy })
	p := planFor(list, keep, busy)
	for _, name := range p.remove {
		if err := l.Remove(name); err != nil {
			return err
		}
	}
	if listErr != nil {
		return listErr
	}
	if full {
		if err := m.rotate(ctx, c, l, p.newest); err != nil {
			return err
		}
	}
	m.set(func() {
		c.repaired = true
		if full || len(p.compress) > 0 {
			m.uncompressed.put(c)
		}
	})
	return nil
}

// set calls change with the lock.
func (m *Manager) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// restore makes a log exist that was renamed and has no successor. The runtime makes a new one if the container
// runs. Otherwise the newest rotated log gets its name back, so that it stays readable.
func (m *Manager) restore(ctx context.Context, c *containerLog, l *logdir.Log, running bool) error {
	if !running {
		return m.giveBack(l)
	}
	if err := m.reopen(ctx, c); err != nil {
		return errors.Join(err, m.giveBack(l))
	}
	m.set(func() { c.reopen = false })
	return nil
}

// newestIsWritten reports whether a process writes to the newest rotated log.
func newestIsWritten(l *logdir.Log) bool {
	list, err := l.Rotated()
	newest := logdir.Newest(list)
	if err != nil || newest == nil || newest.Kind != logdir.Plain {
		return false
	}
	f, err := l.OpenFile(newest.Name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return logdir.WritersOf(f) == logdir.HasWriter
}

// giveBack renames the newest rotated log back if it isn't compressed and the log is missing.
func (m *Manager) giveBack(l *logdir.Log) error {
	list, err := l.Rotated()
	if err != nil {
		return fmt.Errorf("list the rotated logs: %w", err)
	}
	newest := logdir.Newest(list)
	if newest == nil || newest.Kind != logdir.Plain {
		return nil
	}
	if err := l.Rename(newest.Name, l.Name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// rotate renames the log, and has the runtime make a new one. If the runtime doesn't, the log gets its name back.
func (m *Manager) rotate(ctx context.Context, c *containerLog, l *logdir.Log, newest *logdir.Rotated) error {
	failpoint.Reached(failpoint.BeforeLogRename)
	rotated, err := m.rename(l, newest)
	if err != nil {
		return err
	}
	failpoint.Reached(failpoint.LogRenamed)
	if err := m.reopen(ctx, c); err != nil {
		back := l.Rename(rotated, l.Name)
		if errors.Is(back, fs.ErrExist) {
			// The runtime may have made a new log too late for its answer, or the pod has made a file of that name.
			m.set(func() { c.reopen = true })
			return err
		}
		return errors.Join(err, back)
	}
	failpoint.Reached(failpoint.LogReopened)
	now := m.cfg.Clock.Now()
	m.set(func() { c.pace = c.pace.renewed(now) })
	return nil
}

// rename renames the log to the next name of a rotated log, and returns that.
func (m *Manager) rename(l *logdir.Log, newest *logdir.Rotated) (string, error) {
	for range maxNames {
		name := logdir.Next(l.Name, m.cfg.Clock.Now(), newest)
		err := l.Rename(l.Name, name)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
		if taken, ok := logdir.Parse(l.Name, name); ok {
			newest = &taken
		}
	}
	return "", errors.New("all names for the rotated log are taken")
}

// reopen has the runtime make a new log.
func (m *Manager) reopen(ctx context.Context, c *containerLog) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.ReopenTimeout, slowError(m.cfg.ReopenTimeout))
	defer cancel()
	err := m.cfg.Runtime.ReopenContainerLog(ctx, c.id)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("reopen the log: %w", err)
	}
	m.set(m.runtimeWorks)
	return nil
}
