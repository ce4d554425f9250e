package diskusage

import (
	"context"
	"errors"
	"time"
)

// errNotQuick ends a count in the quick queue; callers never see it.
var errNotQuick = errors.New("the pod isn't counted quickly")

// counting returns the count of a pod. check is called after every few files.
func (m *Meter) counting(e *entry, check func(files int) error) *count {
	m.mu.Lock()
	pod := e.pod
	m.mu.Unlock()
	files := 0
	return &count{podsDir: m.cfg.PodDirs.Root(pod.UID), logsDir: m.cfg.LogsDir, pod: pod, linked: linked{most: maxLinked}, tick: func(n int, sofar Figure) error {
		e.bytes.Store(sofar.Bytes)
		e.inodes.Store(sofar.Inodes)
		if files += n; files > m.cfg.MaxFiles {
			return errTooManyFiles
		}
		return check(files)
	}}
}

// countQuick counts a pod within the time of a quick count.
func (m *Meter) countQuick(ctx context.Context, e *entry) (*Usage, time.Duration) {
	began := time.Now()
	u := m.counting(e, func(int) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > m.quickTime {
			return errNotQuick
		}
		return nil
	}).run()
	return u, 0
}

// countSlow counts a pod in turns. took is its working time.
func (m *Meter) countSlow(ctx context.Context, e *entry) (u *Usage, took time.Duration) {
	m.mu.Lock()
	t := turns{meter: m, ctx: ctx, most: e.trouble.maxTime(m.cfg.MaxTime), enough: m.enough << e.trouble.late}
	m.mu.Unlock()
	defer t.give()
	if err := t.get(); err != nil {
		return &Usage{Err: err}, 0
	}
	u = m.counting(e, t.check).run()
	return u, t.worked + time.Since(t.began)
}

// turns are the turns of one slow count.
type turns struct {
	meter *Meter
	ctx   context.Context //nolint:containedctx // It is that of one count.
	// most is the time that the count may take.
	most time.Duration
	// enough is the number of files that the count must have seen by then for the pod to be the cause.
	enough int
	holds  bool
	// began is when the current turn began; worked is the working time of the previous ones.
	began  time.Time
	worked time.Duration
}

// check ends the count when its time is over, and the turn when others wait.
func (t *turns) check(files int) error {
	// A longer step waits for the disk, or the process was stopped: the pod is not the cause.
	now := min(time.Since(t.began), 2*slowTurn)
	switch {
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case t.worked+now > t.most && files >= t.enough:
		return errTooLong
	case t.worked+now > t.most:
		return errSlowDisk
	case now < slowTurn:
		return nil
	}
	t.worked += now
	// Slow counts use at most half of a processor.
	pause(t.ctx, now)
	t.give()
	return t.get()
}

func (t *turns) get() error {
	select {
	case t.meter.turn <- struct{}{}:
		t.holds, t.began = true, time.Now()
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

func (t *turns) give() {
	if t.holds {
		<-t.meter.turn
		t.holds = false
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
