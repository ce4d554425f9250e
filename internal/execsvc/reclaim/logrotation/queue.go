package logrotation

import "slices"

// queue has the logs that wait for a worker, in order. The manager's lock protects it, but not ready.
type queue struct {
	logs []*containerLog
	// ready has an item if a log may be waiting.
	ready chan struct{}
}

func newQueue() queue { return queue{ready: make(chan struct{}, 1)} }

// put adds a log unless it is queued already.
func (q *queue) put(c *containerLog) {
	if !slices.Contains(q.logs, c) {
		q.logs = append(q.logs, c)
	}
	q.signal()
}

// take returns the first log. Nil: there is none.
func (q *queue) take() *containerLog {
	if len(q.logs) == 0 {
		return nil
	}
	c := q.logs[0]
	q.logs = slices.Delete(q.logs, 0, 1)
	if len(q.logs) > 0 {
		q.signal() // for another worker
	}
	return c
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
