package worker

import (
	"testing"
	"time"
)

// TestShortenedGrace: a shortened termination has the shorter grace period, also for containers that are stopped
// later. The grace period never begins before the call that shortened it.
func TestShortenedGrace(t *testing.T) {
	for _, word := range []struct {
		grace int64
		after time.Duration
		want  Termination
	}{
		{10, 5 * time.Second, Termination{Grace: 10, Deadline: now.Add(15 * time.Second)}},
		{1, 599 * time.Second, Termination{Grace: 600, Deadline: now.Add(600 * time.Second)}}, // It would end no earlier.
		{1, 598 * time.Second, Termination{Grace: 1, Deadline: now.Add(599 * time.Second)}},
		{900, 0, Termination{Grace: 600, Deadline: now.Add(600 * time.Second)}},
	} {
		m := in(Syncing)
		m.remove(now, 600)
		m.remove(now.Add(word.after), word.grace)
		if m.end != word.want {
			t.Errorf("%d s after %v: %+v; want %+v", word.grace, word.after, m.end, word.want)
		}
		if since, want := m.end.Since(), word.want.Deadline.Add(-time.Duration(word.want.Grace)*time.Second); !since.Equal(want) {
			t.Errorf("%d s after %v: counts from %v; want %v", word.grace, word.after, since, want)
		}
	}
}
