package apistatus

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/failpoint"
)

// sendNext handles the next pod of the queue. It returns false when the queue has shut down.
func (w *Writer) sendNext(ctx context.Context) bool {
	uid, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(uid)
	if ctx.Err() != nil {
		return true
	}
	t := w.next(uid, time.Now())
	if t == nil {
		return true
	}
	var pod *v1.Pod
	var err error
	if t.status == nil {
		err = completeDeletion(ctx, w.cfg.Client, t)
	} else {
		pod, err = patch(ctx, w.cfg.Client, t)
	}
	if ctx.Err() == nil {
		w.done(uid, t, pod, err)
	}
	return true
}

// next returns the request for the pod. Nil: none, or not yet; then the pod is queued for later.
func (w *Writer) next(uid types.UID, now time.Time) *task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var t *task
	var due time.Time
	e := w.pods[uid]
	if e != nil {
		t, due = w.task(uid, e, now)
	}
	if t == nil {
		if e != nil {
			e.since = time.Time{}
		}
		w.leave(uid)
		return nil
	}
	if due = later(due, e.retry); now.Before(due) {
		w.queue.AddAfter(uid, due.Sub(now))
		return nil
	}
	if may, at := w.outage.admit(uid, now); !may {
		if !at.IsZero() {
			w.queue.AddAfter(uid, at.Sub(now))
		}
		return nil
	}
	t.since, e.since = e.since, time.Time{}
	return t
}

// task returns the request and the time when it is due. The caller holds mu.
func (w *Writer) task(uid types.UID, e *entry, now time.Time) (t *task, due time.Time) {
	p, ok := w.cfg.Board.Get(uid)
	if !ok {
		return nil, due
	}
	spec, streamed := w.copies(p)
	if streamed == nil {
		return nil, due
	}
	there := e.copyOf(streamed)
	t = plan(p, spec, there, now)
	if t != nil && e.asksAgain(t) {
		// The API server never stores all of the status.
		t = completion(p, spec, there)
	}
	if t != nil && planted(t) {
		return nil, due
	}
	if t == nil || t.uid == e.gone || (t.status == nil && t.uid == e.deleted) {
		return nil, due
	}
	switch {
	case t.status != nil && p.Changed.Before(w.begun):
		// podexecd may have ended before a newer status was stored.
		due = e.since.Add(w.cfg.Settle)
	case !t.urgent:
		due = e.since.Add(w.cfg.Quiet)
	}
	return t, due
}

// planted reports whether a failpoint drops the task: tests check that this is detected.
func planted(t *task) bool {
	if t.status == nil {
		return failpoint.Active(failpoint.UncompletedDeletion)
	}
	return podmeta.IsTerminal(t.status.Phase) && failpoint.Active(failpoint.UntoldEnd)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// copies returns the desired pod, and the API server's pod of the stream. Nil: the server has none.
func (w *Writer) copies(p podview.Pod) (spec, there *v1.Pod) {
	if pod := w.cfg.Pod(p.UID); pod != nil && podmeta.FromAPI(pod) {
		return pod, pod
	}
	if p.Object == nil || podmeta.FromAPI(p.Object) {
		return nil, nil
	}
	mirror := w.cfg.Mirror(p.Namespace, p.Name)
	if mirror == nil || !mirrors(mirror, p.Object) {
		return nil, nil
	}
	return p.Object, mirror
}

// leave removes a pod without a request from the outage, if there is one. The caller holds mu.
func (w *Writer) leave(uid types.UID) {
	if next := w.outage.leave(uid); next != "" {
		w.queue.Add(next)
	}
}
