package diskusage

// queue has the pods that wait to be counted. Namespaces take turns, so the pods of one do not delay those of
// another. The lock of the Meter protects it.
type queue struct {
	// waiting are the pods of each namespace, the first one first. order has the namespaces with pods, the next one
	// first.
	waiting map[string][]*entry
	order   []string
	// counting is how many pods of each namespace are being counted; most bounds it.
	counting map[string]int
	most     int
	// ready has an element if a pod may be taken.
	ready chan struct{}
}

func newQueue(most int) queue {
	return queue{waiting: map[string][]*entry{}, counting: map[string]int{}, most: most, ready: make(chan struct{}, 1)}
}

// put adds a pod, which isn't in a queue and isn't being counted.
func (q *queue) put(e *entry) {
	e.namespace = e.pod.Namespace
	if len(q.waiting[e.namespace]) == 0 {
		q.order = append(q.order, e.namespace)
	}
	q.waiting[e.namespace] = append(q.waiting[e.namespace], e)
	q.wake()
}

// next takes a pod of the first namespace that may have another one counted; nil: there is none.
func (q *queue) next() *entry {
	for i, namespace := range q.order {
		if q.counting[namespace] >= q.most {
			continue
		}
		pods := q.waiting[namespace]
		q.order = append(q.order[:i:i], q.order[i+1:]...)
		if len(pods) > 1 {
			q.waiting[namespace] = pods[1:]
			q.order = append(q.order, namespace)
		} else {
			delete(q.waiting, namespace)
		}
		q.counting[namespace]++
		if len(q.order) > 0 {
			q.wake()
		}
		return pods[0]
	}
	return nil
}

// done ends the count of a pod that next has returned.
func (q *queue) done(e *entry) {
	if q.counting[e.namespace]--; q.counting[e.namespace] == 0 {
		delete(q.counting, e.namespace)
	}
	if len(q.order) > 0 {
		q.wake()
	}
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
