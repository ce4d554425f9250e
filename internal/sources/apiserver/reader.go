package apiserver

import (
	"context"
	"errors"
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
	// watchGrace is how long after its own time a watch may last.
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

// reader makes one reflector's requests. A reflector makes them one after the other.
type reader struct {
	server              *server
	resource, namespace string
	selector            fields.Selector
	observer            observer
	clock               clock.Clock

	// pace bounds how often watches begin: a reflector begins one at once if the last one ended well, however soon.
	pace *rate.Limiter
	// reconnect: the next request needs a connection of its own.
	reconnect bool
	// notBefore is when the server wants to be asked again.
	notBefore time.Time
	// unfinished is how many streaming lists were begun since the last other request.
	unfinished int
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
	list, err := r.server.list(ctx, r.resource, r.namespace, &options)
	if unreadableVersion(err) && options.ResourceVersion != "" && options.ResourceVersion != "0" {
		// The version came from a watch that said nonsense. A reflector would ask for it for ever.
		options.ResourceVersion = ""
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

// watch is a reflector's WatchFuncWithContext.
func (r *reader) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	if !initial {
		r.unfinished = 0
	} else if r.unfinished >= maxUnfinished {
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
	bounded, cancel := context.WithCancel(ctx)
	if options.TimeoutSeconds != nil {
		bounded, cancel = context.WithTimeout(ctx, time.Duration(*options.TimeoutSeconds)*time.Second+watchGrace)
	}
	w, err := r.server.get(r.resource, r.namespace, &options).Watch(bounded)
	if err == nil && isEmpty(w) {
		err = errCut
	}
	if err != nil {
		cancel()
		switch {
		case rereads(err):
		case initial && answered(err) && !apierrors.IsTooManyRequests(err):
			// The reflector asks for a list instead: that tells whether the server can be read.
			r.heed(err)
		default:
			r.fail(ctx, err)
		}
		return nil, err
	}
	if initial {
		r.unfinished++
	}
	r.observer.opened(initial)
	return &boundedWatch{w, cancel}, nil
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
