package apiserver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

const (
	// listTimeout is how long one list, or page, may take.
	listTimeout = 5 * time.Minute
	// maxWatch is how long a watch may last for which the reflector names no time, and watchGrace how long after its time any may.
	maxWatch   = 10 * time.Minute
	watchGrace = 30 * time.Second
	// maxRetryAfter is the longest that a server is left alone because it asks for it.
	maxRetryAfter = time.Minute
	// maxUnfinished is how many streaming lists may end before they are complete, one after the other.
	maxUnfinished = 3
)

// observer is told how requests go, beside the reflector.
type observer interface {
	// listing: a list is asked for.
	listing()
	// opened: a watch is open. initial: what there is comes first.
	opened(initial bool)
	// failed: nothing can be read now.
	failed(err error)
}

// reader makes the requests of one reflector, or of one polling, one after the other.
type reader struct {
	server              *server
	resource, namespace string
	selector            fields.Selector
	observer            observer
	clock               clock.Clock

	// pace bounds how often watches begin: a reflector begins one at once if the last one ended well, however soon.
	pace *rate.Limiter
	// silence is how long a streaming list that isn't complete yet may say nothing.
	silence time.Duration
	// reconnect: the next request needs a connection of its own.
	reconnect bool
	// notBefore is when the server wants to be asked again.
	notBefore time.Time
	// unfinished is how many streaming lists were begun since the last other request.
	unfinished int
	// givenUp is set when a streaming list was, by the timer that does so. listsUntil is for how long no other is tried then.
	givenUp    atomic.Bool
	listsUntil time.Time
}

// list is a reflector's ListWithContextFunc.
func (r *reader) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	r.unfinished = 0
	r.observer.listing()
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	options.FieldSelector = r.selector.String()
	switch {
	case options.ResourceVersion == "0":
		// A reflector's first list takes what the server has in its cache, however old. A pod that is only missing there would be
		// removed.
		options.ResourceVersion = ""
	case options.ResourceVersion != "" && options.Continue == "":
		// Without it a list in pages is of that very version, which is the first to be too old.
		options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	list, err := r.server.list(ctx, r.resource, r.namespace, &options)
	if unreadableVersion(err) && options.ResourceVersion != "" {
		// The version came from a watch that said nonsense. A reflector would ask for it for ever.
		options.ResourceVersion, options.ResourceVersionMatch = "", ""
		list, err = r.server.list(ctx, r.resource, r.namespace, &options)
	}
	if err != nil && errors.Is(context.Cause(ctx), errListTimeout) {
		err = errListTimeout
	}
	if err != nil && !rereads(err) {
		r.fail(ctx, err)
	}
	return list, err
}

// get asks for one object, as it is at that version or later ("" for now). That there is none is no failure to read.
func (r *reader) get(ctx context.Context, name, version string) (runtime.Object, error) {
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	object, err := r.server.get(r.resource, r.namespace, &metav1.ListOptions{ResourceVersion: version}).Name(name).Do(bounded).Get()
	if err != nil && errors.Is(context.Cause(bounded), errListTimeout) {
		err = errListTimeout
	}
	if err != nil && !apierrors.IsNotFound(err) {
		r.fail(ctx, err)
	}
	return object, err
}

// watch is a reflector's WatchFuncWithContext.
func (r *reader) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	if !initial {
		r.unfinished = 0
	} else if !r.mayStream() {
		return nil, errUnfinished
	}
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	if err := r.pace.Wait(ctx); err != nil {
		return nil, err
	}
	options.FieldSelector = r.selector.String()
	options.Watch = true
	lasts := maxWatch
	if options.TimeoutSeconds != nil {
		lasts = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	bounded, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	if initial {
		return r.stream(ctx, bounded, cancel, options)
	}
	w, err := r.open(bounded, options)
	if err != nil {
		cancel()
		if !rereads(err) {
			r.fail(ctx, err)
		}
		return nil, err
	}
	r.observer.opened(false)
	return &boundedWatch{w, cancel}, nil
}

func (r *reader) open(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := r.server.get(r.resource, r.namespace, &options).Watch(ctx)
	if err == nil && isEmpty(w) {
		return nil, errCut
	}
	return w, err
}

// mayStream tells whether a streaming list may be tried. Where it may not, the reflector asks for a list at once.
func (r *reader) mayStream() bool {
	if r.givenUp.Swap(false) {
		r.listsUntil = r.clock.Now().Add(listsOnly)
	}
	return r.unfinished < maxUnfinished && !r.clock.Now().Before(r.listsUntil)
}

// stream begins a streaming list, with bounded, which cancel ends. One that isn't completed in time is a failure.
func (r *reader) stream(
	ctx, bounded context.Context, cancel context.CancelFunc, options metav1.ListOptions,
) (watch.Interface, error) {
	p := newPatience(r.silence, func(err error) {
		r.givenUp.Store(true)
		if ctx.Err() == nil {
			r.observer.failed(err)
		}
		// Only now the reflector learns of it, so that what it reads next is told after the failure.
		cancel()
	})
	w, err := r.open(bounded, options)
	if err != nil {
		p.stop()
		cancel()
		switch {
		case rereads(err) || r.givenUp.Load():
		case answered(err) && !apierrors.IsTooManyRequests(err):
			// The reflector asks for a list instead: that tells whether the server can be read.
			r.heed(err)
		default:
			r.fail(ctx, err)
		}
		return nil, err
	}
	r.unfinished++
	r.observer.opened(true)
	list := &streamingList{boundedWatch{w, cancel}, make(chan watch.Event)}
	go list.forward(bounded, p)
	return list, nil
}

// wait waits until the server may be asked again.
func (r *reader) wait(ctx context.Context) error {
	if r.reconnect {
		r.reconnect = false
		r.server.closeIdle()
	}
	left := r.notBefore.Sub(r.clock.Now())
	if left <= 0 {
		return ctx.Err()
	}
	timer := r.clock.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail heeds the failure and passes it on, unless it is that the reflector ends.
func (r *reader) fail(ctx context.Context, err error) {
	r.heed(err)
	if ctx.Err() != nil && !errors.Is(err, errListTimeout) {
		return
	}
	r.observer.failed(err)
}

// heed does what a failure asks for.
func (r *reader) heed(err error) {
	if apierrors.IsUnauthorized(err) {
		// The connection was made with credentials that are no good any more. A new one shows those that are in the files then.
		r.reconnect = true
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		r.notBefore = r.clock.Now().Add(min(time.Duration(seconds)*time.Second, maxRetryAfter))
	}
}

// boundedWatch is a watch that has a time of its own.
type boundedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop ends the watch.
func (w *boundedWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
}
