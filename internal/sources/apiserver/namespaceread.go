package apiserver

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podstream/podstream/internal/manifest"
)

const (
	// namespaceReads is how many objects of a namespace are read at once.
	namespaceReads = 8
	// minWhole is how many members at least are read by one list of the namespace, and wholePer how many listed objects cost as
	// much as one request.
	minWhole, wholePer = 16, 8
	// objectPage is how many objects a page of such a list has.
	objectPage = 500
)

// listedWhole reports whether many objects of the kind may be read by one list of all of them.
func listedWhole(kind manifest.ObjectKind) bool { return kind == manifest.ConfigMapKind }

// read reads the queued members until ctx ends.
func (n *namespace) read(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, namespaceReads)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		batch := n.next(ctx)
		if batch == nil {
			return
		}
		running.Go(func() {
			failed, pause := n.readBatch(ctx, batch)
			<-free
			if len(failed) > 0 {
				n.again(ctx, failed, pause)
			}
		})
	}
}

// next waits for members that have to be read; nil: ctx has ended.
func (n *namespace) next(ctx context.Context) []*member {
	for ctx.Err() == nil {
		if batch := n.take(); len(batch) > 0 {
			return batch
		}
		select {
		case <-n.signal:
		case <-ctx.Done():
		}
	}
	return nil
}

// take returns the members to be read next: the first one or, if there are many, all.
func (n *namespace) take() []*member {
	n.mu.Lock()
	defer n.mu.Unlock()
	var batch []*member
	most := 1
	if n.whole && len(n.queue) >= minWhole {
		most = len(n.queue)
	}
	for len(n.queue) > 0 && len(batch) < most {
		m := n.queue[0]
		n.queue = n.queue[1:]
		m.queued = false
		if n.members[m.f.key.Name] == m {
			m.reading, m.hinted = true, false
			batch = append(batch, m)
		}
	}
	return batch
}

// again queues members after a pause.
func (n *namespace) again(ctx context.Context, failed []*member, pause time.Duration) {
	timer := n.source.cfg.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range failed {
		m.reading = false
		n.enqueue(m)
	}
}

// readBatch reads the members, and returns those that have to be read again after a pause.
func (n *namespace) readBatch(ctx context.Context, batch []*member) (failed []*member, pause time.Duration) {
	resource, _ := kindOf(n.group.kind)
	r := &reader{
		server: n.source.server, resource: resource, namespace: n.group.namespace, selector: fields.Everything(),
		observer: reads{n}, clock: n.source.cfg.Clock, gate: n.source.gate,
	}
	if len(batch) > 1 {
		failed, pause = n.readWhole(ctx, r, batch)
	} else if m := batch[0]; !n.readOne(ctx, r, m) {
		failed, pause = batch, m.backoff.Step()
	}
	return failed, max(pause, r.notBefore.Sub(n.source.cfg.Clock.Now()))
}

// readOne reads a member, and reports whether there was an answer.
func (n *namespace) readOne(ctx context.Context, r *reader, m *member) bool {
	object, err := r.get(ctx, m.f.key.Name, "")
	switch {
	case err == nil:
		n.settle(m, object)
	case apierrors.IsNotFound(err):
		n.settle(m, nil)
	default:
		return false
	}
	return true
}

// readWhole reads the members by one list of the namespace, a page at a time. It is given up if that costs more than to read
// each of them. A version is never older than the beginning of the list, so an object that isn't in it doesn't exist.
func (n *namespace) readWhole(ctx context.Context, r *reader, batch []*member) (failed []*member, pause time.Duration) {
	left := make(map[string]*member, len(batch))
	for _, m := range batch {
		left[m.f.key.Name] = m
	}
	r.accept = objectAccept
	options, listed := metav1.ListOptions{Limit: objectPage}, 0
	for {
		page, err := r.list(ctx, options)
		list, ok := page.(metav1.ListInterface)
		switch {
		case rereads(err) || errors.Is(err, errLargePage) || err == nil && !ok:
			return n.each(left), 0
		case err != nil:
			return remaining(left), n.step()
		}
		listed += n.settlePage(page, left)
		if options.Continue = list.GetContinue(); options.Continue == "" || len(left) == 0 {
			break
		}
		if listed > wholePer*len(batch) {
			return n.each(left), 0
		}
	}
	for _, m := range left {
		n.settle(m, nil)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.backoff = n.source.backoff
	return nil, 0
}

// step returns the pause before the next list of the namespace.
func (n *namespace) step() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.backoff.Step()
}

// each has the members read one by one from now on.
func (n *namespace) each(left map[string]*member) []*member {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.whole = false
	return remaining(left)
}

func remaining(left map[string]*member) []*member {
	out := make([]*member, 0, len(left))
	for _, m := range left {
		out = append(out, m)
	}
	return out
}

// settlePage takes the members in a page, and returns how many objects it has.
func (n *namespace) settlePage(page runtime.Object, left map[string]*member) (listed int) {
	// It returns no error: the page is a list, and the function returns none.
	_ = meta.EachListItem(page, func(object runtime.Object) error {
		listed++
		if o, ok := object.(metav1.Object); ok && o.GetNamespace() == n.group.namespace {
			if m := left[o.GetName()]; m != nil {
				delete(left, o.GetName())
				n.settle(m, object)
			}
		}
		return nil
	})
	return listed
}

// settle takes what was read of a member; nil: it doesn't exist.
func (n *namespace) settle(m *member, object runtime.Object) {
	version := ""
	if o, ok := object.(metav1.Object); ok {
		version = versionText(o)
		_ = m.f.put(object) // It logs what it can't take.
	} else {
		m.f.report("", nil)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m.known, m.version, m.reading, m.backoff = true, version, false, n.source.backoff
	if m.hinted && m.hint != version && n.members[m.f.key.Name] == m {
		n.enqueue(m)
	}
}

// reads observes the readings of single objects. Only a refusal concerns the namespace.
type reads struct{ n *namespace }

func (r reads) listing() {}

func (r reads) opened(bool) {}

func (r reads) failed(err error) {
	if apierrors.IsForbidden(err) {
		r.n.refuse(err)
	}
}
