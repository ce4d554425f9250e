package service

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Idle measures how long the page hasn't been used. It is safe for concurrent use.
type Idle struct {
	clock clock.Clock
	limit time.Duration

	mu   sync.Mutex
	last time.Time
}

// NewIdle returns an Idle that begins now. A limit of zero means no limit.
func NewIdle(c clock.Clock, limit time.Duration) *Idle {
	return &Idle{clock: c, limit: limit, last: c.Now()}
}

// Limit returns the limit. Zero means none.
func (i *Idle) Limit() time.Duration { return i.limit }

// Touch records that the page is used.
func (i *Idle) Touch() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = i.clock.Now()
}

// Ends returns when the time is over. Zero means never.
func (i *Idle) Ends() time.Time {
	if i.limit == 0 {
		return time.Time{}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last.Add(i.limit)
}

// Wait returns when the page wasn't used for the limit, and reports whether that is so: otherwise ctx has ended.
func (i *Idle) Wait(ctx context.Context) bool {
	for {
		var due <-chan time.Time
		if ends := i.Ends(); !ends.IsZero() {
			left := ends.Sub(i.clock.Now())
			if left <= 0 {
				return true
			}
			timer := i.clock.NewTimer(left)
			defer timer.Stop() //nolint:gocritic // Each one has fired, but the last.
			due = timer.C()
		}
		select {
		case <-due:
		case <-ctx.Done():
			return false
		}
	}
}
