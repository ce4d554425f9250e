package probe

import (
	"testing"
	"time"
)

// TestIdle: a probe in the queue isn't idle, the one at its head included, nor is one that is under way.
func TestIdle(t *testing.T) {
	var q queue
	head, second := &probe{at: -1}, &probe{at: -1}
	if !head.idle() {
		t.Error("a probe outside the queue isn't idle")
	}
	q.set(head, time.Unix(1, 0))
	q.set(second, time.Unix(2, 0))
	if head.idle() || second.idle() {
		t.Errorf("in the queue the head is idle: %v, the second: %v; want neither", head.idle(), second.idle())
	}
	if under := (&probe{at: -1, run: &run{}}); under.idle() {
		t.Error("a probe that is under way is idle")
	}
}
