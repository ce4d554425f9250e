package apistatus

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/failpoint"
)

// sendNext looks at the next pod of the queue. It is false when there is nothing more to do.
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

// next is what is to be asked for the pod now. Nil: nothing, or not yet; then the queue has it again when it is time.
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

// task is what there is to be asked for, and when it is due. The caller holds mu.
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
		// The API server doesn't take all of the status, and never will.
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
		// It may be older than what was told last, if podexecd ended before it was stored.
		due = e.since.Add(w.cfg.Settle)
	case !t.urgent:
		due = e.since.Add(w.cfg.Quiet)
	}
	return t, due
}

// planted tells whether a fault keeps the task from being done: tests have it noticed.
func planted(t *task) bool {
	if t.status == nil {
		return failpoint.Active(failpoint.UncompletedDeletion)
	}
	return terminal(t.status.Phase) && failpoint.Active(failpoint.UntoldEnd)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// copies are the pod as it is desired here, and as the API server has it by what was streamed. Nil: it has none of it.
func (w *Writer) copies(p board.Pod) (spec, there *v1.Pod) {
	if pod := w.cfg.Pod(p.UID); pod != nil && criconfig.FromAPI(pod) {
		return pod, pod
	}
	if p.Object == nil || criconfig.FromAPI(p.Object) {
		return nil, nil
	}
	mirror := w.cfg.Mirror(p.Namespace, p.Name)
	if mirror == nil || !mirrors(mirror, p.Object) {
		return nil, nil
	}
	return p.Object, mirror
}

// leave takes a pod that has nothing to ask for out of the outage, if there is one. The caller holds mu.
func (w *Writer) leave(uid types.UID) {
	if next := w.outage.leave(uid); next != "" {
		w.queue.Add(next)
	}
}
