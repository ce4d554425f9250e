package probe

import (
	"container/heap"
	"time"
)

// queue has the probes that aren't running, the one that is due first at its head.
type queue []*probe

// set adds the probe, or moves it, so that it is due then.
func (q *queue) set(p *probe, due time.Time) {
	p.due = due
	if p.at < 0 {
		heap.Push(q, p)
	} else {
		heap.Fix(q, p.at)
	}
}

// remove removes the probe, if it is in the queue.
func (q *queue) remove(p *probe) {
	if p.at >= 0 {
		heap.Remove(q, p.at)
	}
}

// Len, Less, Swap, Push and Pop implement heap.Interface of container/heap.

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

func (q *queue) Push(x any) {
	p := x.(*probe)
	p.at = len(*q)
	*q = append(*q, p)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.at = -1
	return p
}
