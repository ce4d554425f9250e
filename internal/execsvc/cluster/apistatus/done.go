package apistatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// news is the part of a result that is logged.
type news struct {
	// outage: the API server has stopped answering. restored: it answers again.
	outage, restored bool
	// trouble is a new failure of this pod's requests. relieved is a failure that has ended.
	trouble, relieved outcome
}

// done handles the result of a task. pod is the response to a patch.
func (w *Writer) done(uid types.UID, t *task, pod *v1.Pod, err error) {
	result := outcomeOf(err)
	if t.status != nil {
		w.metrics.patched(result, t.since)
	}
	w.report(t, err, w.note(uid, t, pod, err))
}

// note records the result and queues the next task.
func (w *Writer) note(uid types.UID, t *task, pod *v1.Pod, err error) (n news) {
	now, result := time.Now(), outcomeOf(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	if e == nil {
		// The pod was removed meanwhile.
		e = &entry{}
	}
	if result == unanswered {
		e.due(t.since)
		alone, began, prober, at := w.outage.failed(uid, now)
		if !alone {
			w.queue.AddAfter(prober, at.Sub(now))
			return news{outage: began}
		}
		if e.failures++; e.failures > 1 {
			n.trouble = w.trouble(e, result)
		}
		wait := pause(e.failures, longestOutage)
		e.retry = now.Add(wait)
		w.queue.AddAfter(uid, wait)
		return n
	}
	waited, reported := w.outage.over()
	n.restored = reported
	for other := range waited {
		w.queue.Add(other)
	}
	switch result {
	case taken, gone:
		n.relieved = w.relieve(e)
		e.took(t, pod, result)
		// The pod may have changed meanwhile, or have to be deleted.
		w.queue.Add(uid)
	default:
		n.trouble = w.trouble(e, result)
		e.due(t.since)
		e.failures++
		wait := pause(e.failures, longestPause)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(seconds)*time.Second)
		}
		e.retry = now.Add(wait)
		w.queue.AddAfter(uid, wait)
	}
	return n
}

// due moves back the time since which a change waits to be sent.
func (e *entry) due(since time.Time) {
	if e.since.IsZero() || since.Before(e.since) {
		e.since = since
	}
}

// took records the result of a task.
func (e *entry) took(t *task, pod *v1.Pod, result outcome) {
	switch {
	case result == gone:
		e.gone = t.uid
	case t.status == nil:
		e.deleted = t.uid
	default:
		e.answer = &answer{uid: t.uid, version: pod.ResourceVersion, status: pod.Status}
		if !same(t.pod, &pod.Status, t.status) {
			e.answer.asked = t.status
		}
	}
}

// trouble records a failure of the pod's requests, and returns it if it must be logged. The caller holds mu.
func (w *Writer) trouble(e *entry, result outcome) (reported outcome) {
	reported = result
	if e.trouble == result || result == throttled || (result == forbidden && w.forbids()) {
		reported = ""
	}
	e.trouble = result
	return reported
}

// relieve records that the pod's requests succeed, and retries other pods with the same failure. It returns the
// logged failure that has ended. The caller holds mu.
func (w *Writer) relieve(e *entry) (over outcome) {
	over = e.trouble
	e.trouble, e.failures, e.retry = "", 0, time.Time{}
	if over == "" {
		return ""
	}
	for uid, other := range w.pods {
		if other.trouble == over {
			other.retry = time.Time{}
			w.queue.Add(uid)
		}
	}
	if over == throttled || (over == forbidden && w.forbids()) {
		return ""
	}
	return over
}

// forbids reports whether any pod's requests are forbidden. All usually are for the same reason, which is logged
// once. The caller holds mu.
func (w *Writer) forbids() bool {
	for _, e := range w.pods {
		if e.trouble == forbidden {
			return true
		}
	}
	return false
}

// report logs the result.
func (w *Writer) report(t *task, err error, n news) {
	log := w.log.With("pod", t.namespace+"/"+t.name, "uid", t.uid)
	switch {
	case n.outage:
		w.log.Warn("the API server doesn't answer; pods keep running, and their statuses are posted once it does", "error", err)
	case n.restored:
		w.log.Info("pods' statuses can be posted again")
	}
	switch {
	case n.trouble == forbidden:
		log.Warn("the API server forbids to post pods' statuses, or to remove pods; retrying", "error", err)
	case n.trouble == refused:
		log.Warn("the API server rejects a pod's status, or its removal; retrying", "error", err)
	case n.trouble == unanswered:
		log.Warn("the API server doesn't answer requests about a pod; retrying", "error", err)
	case n.relieved == forbidden:
		w.log.Info("the API server allows this node to post pods' statuses again")
	case n.relieved == refused, n.relieved == unanswered:
		log.Info("the pod's status can be posted again")
	}
}
