package apistatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// news is what the node's owner has to know of an outcome.
type news struct {
	// outage and restored: the API server doesn't answer any more, or does again.
	outage, restored bool
	// trouble is what is wrong with the requests of this pod, and was not before. relieved: what was wrong with them is over.
	trouble, relieved outcome
}

// done notes what became of a task. pod is what a patch was answered with.
func (w *Writer) done(uid types.UID, t *task, pod *v1.Pod, err error) {
	result := outcomeOf(err)
	if t.status != nil {
		w.metrics.patched(result, t.since)
	}
	w.tell(t, err, w.note(uid, t, pod, err))
}

// note notes it and sees to what follows.
func (w *Writer) note(uid types.UID, t *task, pod *v1.Pod, err error) (n news) {
	now, result := time.Now(), outcomeOf(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pods[uid]
	if e == nil {
		// It went meanwhile.
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
	waited, told := w.outage.over()
	n.restored = told
	for other := range waited {
		w.queue.Add(other)
	}
	switch result {
	case taken, gone:
		n.relieved = w.relieve(e)
		e.took(t, pod, result)
		// There may be more: what changed meanwhile, or the deletion.
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

// due puts back since when there is something to tell.
func (e *entry) due(since time.Time) {
	if e.since.IsZero() || since.Before(e.since) {
		e.since = since
	}
}

// took remembers how a task was taken.
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

// trouble notes what is wrong with the pod's requests, and returns it if it has to be told. The caller holds mu.
func (w *Writer) trouble(e *entry, result outcome) (told outcome) {
	told = result
	if e.trouble == result || result == throttled || (result == forbidden && w.forbids()) {
		told = ""
	}
	e.trouble = result
	return told
}

// relieve notes that nothing is wrong with the pod's requests, and has others tried that the same was wrong with. It returns what was
// told and is over. The caller holds mu.
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

// forbids tells whether any pod's requests are forbidden. It is mostly the same for all, and told once. The caller holds mu.
func (w *Writer) forbids() bool {
	for _, e := range w.pods {
		if e.trouble == forbidden {
			return true
		}
	}
	return false
}

// tell logs what there is to say.
func (w *Writer) tell(t *task, err error, n news) {
	log := w.log.With("pod", t.namespace+"/"+t.name, "uid", t.uid)
	switch {
	case n.outage:
		w.log.Warn("the API server can't be told how its pods are; they go on, and it is told once it answers", "error", err)
	case n.restored:
		w.log.Info("the API server is told again how its pods are")
	}
	switch {
	case n.trouble == forbidden:
		log.Warn("the API server forbids to tell it how pods are, or to remove them; trying again", "error", err)
	case n.trouble == refused:
		log.Warn("the API server refuses to be told how a pod is, or to remove it; trying again", "error", err)
	case n.trouble == unanswered:
		log.Warn("the API server doesn't answer what it is told of a pod, or asked to remove it; trying again", "error", err)
	case n.relieved == forbidden:
		w.log.Info("the API server lets this node tell again how its pods are")
	case n.relieved == refused, n.relieved == unanswered:
		log.Info("the API server is told again how the pod is")
	}
}
