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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

const (
	// listTimeout is how long one list, or page, may take.
	listTimeout = 5 * time.Minute
	// maxWatch is how long a watch may last for which the reflector names no time, and watchGrace how much longer
	// than its time any watch may last.
	maxWatch   = 10 * time.Minute
	watchGrace = 30 * time.Second
	// maxRetryAfter is the longest Retry-After that is respected.
	maxRetryAfter = time.Minute
	// maxUnfinished is how many streaming lists in a row may end before they are complete.
	maxUnfinished = 3
	// maxExpired is how many watches in a row may be refused as too old before that counts as a failure.
	maxExpired = 3
)

// observer is notified of the requests of a reflector.
type observer interface {
	// listing: a list is requested.
	listing()
	// opened: a watch is open. initial: it begins with the initial state.
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
	// same reports whether a list has one of these pods, so that it can only be of the cluster that was read before. Nil: no
	// list shows that, and watches don't each need a check of the cluster.
	same func(runtime.Object, []types.UID) bool
	// pods is what reads the pods; nil: objects are read. snapshot is the reading that was begun last.
	pods     *pods
	snapshot snapshot
	// gate paces the requests. Nil: they aren't paced.
	gate *gate
	// accept is the Accept header of lists and watches, whose pages are bounded then, and which aren't streaming lists. Empty:
	// whole objects. limit is how many objects a page may have; zero: as many as are requested. listed counts those of the
	// pages of one list.
	accept string
	limit  int64
	listed int
	// refusals is how many checks another cluster had answered before the last complete reading began.
	refusals uint64

	// pace bounds how often watches begin: a reflector begins one at once if the last one ended well, however soon.
	pace *rate.Limiter
	// silence is how long a streaming list that isn't complete yet may send nothing.
	silence time.Duration
	// reconnect: the next request needs a new connection.
	reconnect bool
	// notBefore is the earliest time of the next request, as the server asked for it.
	notBefore time.Time
	// unfinished is how many streaming lists were begun since the last other request.
	unfinished int
	// expired is how many watches in a row the server refused because their version is too old.
	expired int
	// givenUp is set by the timer that gives up a streaming list. listsUntil is how long no other one is tried then.
	givenUp    atomic.Bool
	listsUntil time.Time
}

// list is a reflector's ListWithContextFunc.
func (r *reader) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	r.unfinished = 0
	r.observer.listing()
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	options.FieldSelector = r.selector.String()
	refusals, suspect := r.suspect()
	if suspect && options.Continue != "" {
		return nil, errSuspect // The pages before may be of another cluster.
	}
	before := r.where()
	switch {
	case options.ResourceVersion == "0", suspect && options.Continue == "":
		// A reflector's first list takes what the server has in its cache, however old. A pod that is only missing
		// there would be removed.
		options.ResourceVersion = ""
	case options.ResourceVersion != "" && options.Continue == "":
		// Without it a list in pages is of exactly that version, which soon is too old.
		options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	list, err := r.page(ctx, &options)
	if unreadableVersion(err) && options.ResourceVersion != "" {
		// The version came from a faulty watch. A reflector would request it forever.
		options.ResourceVersion, options.ResourceVersionMatch = "", ""
		list, err = r.page(ctx, &options)
	}
	if err == nil {
		err = r.confirmList(ctx, list, refusals)
	}
	if err == nil {
		r.begin(ctx, before, &options)
	}
	if err != nil && errors.Is(context.Cause(ctx), errListTimeout) {
		err = errListTimeout
	}
	if err != nil && (!rereads(err) || anyVersion(&options)) {
		r.fail(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// get reads one object, at that version or later ("" for now). That it doesn't exist isn't a failure.
func (r *reader) get(ctx context.Context, name, version string) (runtime.Object, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	bounded, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	object, err := r.request(&metav1.ListOptions{ResourceVersion: version}).Name(name).Do(bounded).Get()
	if err == nil || apierrors.IsNotFound(err) {
		if other := r.confirm(bounded); other != nil {
			object, err = nil, other
		}
	}
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
	if err := r.pace.Wait(ctx); err != nil {
		return nil, err
	}
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave() // It is open, or has failed.
	options.FieldSelector = r.selector.String()
	options.Watch = true
	lasts := maxWatch
	if options.TimeoutSeconds != nil {
		lasts = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	bounded, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	r.server.identity.watching(bounded, cancel)
	refusals, suspect := r.suspect()
	switch {
	case initial && suspect:
		options.ResourceVersion = ""
		fallthrough
	case initial:
		before := r.where()
		w, err := r.stream(ctx, bounded, cancel, options)
		if err == nil {
			r.refusals = refusals
			r.begin(ctx, before, &options)
		}
		return w, err
	case suspect:
		cancel()
		return nil, errSuspect
	}
	w, err := r.open(bounded, options)
	if err != nil {
		cancel()
		if !rereads(err) || r.expires() {
			r.fail(ctx, err)
		}
		return nil, err
	}
	r.expired = 0
	r.observer.opened(false)
	return &boundedWatch{w, cancel}, nil
}

// expires counts a watch whose version the server refuses as too old, and reports whether there were too many in a
// row: the version came from the list before.
func (r *reader) expires() bool {
	r.expired++
	return r.expired > maxExpired
}

func (r *reader) open(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	request := r.request(&options)
	if r.accept != "" {
		request.SetHeader("Accept", metadataWatchAccept)
	}
	w, err := request.Watch(ctx)
	switch {
	case err != nil:
		return nil, err
	case isEmpty(w):
		return nil, errCut
	}
	if err := r.confirm(ctx); err != nil {
		w.Stop()
		return nil, err
	}
	return w, nil
}

// stream begins a streaming list, with bounded, which cancel ends. It is a failure if it isn't completed in time.
func (r *reader) stream(
	ctx, bounded context.Context, cancel context.CancelFunc, options metav1.ListOptions,
) (watch.Interface, error) {
	p := newPatience(r.silence, func(err error) {
		r.givenUp.Store(true)
		if ctx.Err() == nil {
			r.observer.failed(err)
		}
		// The reflector is stopped only now, so that what it reads next is recorded after the failure.
		cancel()
	})
	w, err := r.open(bounded, options)
	if err != nil {
		p.stop()
		cancel()
		switch {
		case rereads(err) && anyVersion(&options):
			// The reflector would repeat the same request at once, forever. After any other error it requests a list.
			return nil, errVersion
		case rereads(err) || r.givenUp.Load() || isIdentity(err):
		case answered(err) && !apierrors.IsTooManyRequests(err):
			// The reflector requests a list instead: that reports whether the server can be read.
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
