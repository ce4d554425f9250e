package apiobjects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// The pauses between attempts double from firstPause to lastPause while attempts fail; half as much again is added at random.
	firstPause, lastPause = time.Second, 8 * time.Second
	// unservedPause is the pause before a kind that the server doesn't serve is requested again.
	unservedPause = 5 * time.Minute
	// pageSize is the number of objects in a page of a list.
	pageSize = 500
	// listTimeout is the time limit for a page.
	listTimeout = time.Minute
	// A watch lasts from watchFor to twice as long. The client waits watchGrace longer for its end.
	watchFor, watchGrace = 5 * time.Minute, 30 * time.Second
)

// errUnserved means that the API server doesn't serve the kind.
var errUnserved = errors.New("the API server doesn't have them")

// resource is a kind of objects at the API server.
type resource struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// fields is the field selector; empty selects all.
	fields string
}

// resourceOf returns the resource of a typed client.
func resourceOf[L runtime.Object](client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
},
) resource {
	return resource{
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		watch: client.Watch,
	}
}

// follow keeps the table equal to the API server's objects until ctx ends. find returns the resource: at first, and
// again when the server no longer serves it.
//
// In contrast to client-go's reflector, it never holds a whole list in memory, nor any object as received, and it
// ends with ctx at once.
func (t *table[T]) follow(ctx context.Context, find func(context.Context) (resource, error)) {
	f := &follower[T]{table: t, find: find}
	pauses := newPauses()
	pauses.Step() // The first pause follows a watch that has begun.
	for ctx.Err() == nil {
		begun, err := f.try(ctx)
		if ctx.Err() != nil {
			return
		}
		if begun {
			pauses = newPauses()
		}
		next := pauses.Step()
		if err != nil {
			t.tell(err)
			if errors.Is(err, errUnserved) {
				next = wait.Jitter(unservedPause, maxJitter)
			}
		}
		sleep(ctx, next)
	}
}

// maxJitter is the greatest part of a pause that is added at random.
const maxJitter = 0.5

// newPauses returns the pauses between attempts.
func newPauses() wait.Backoff {
	return wait.Backoff{Duration: firstPause, Factor: 2, Jitter: maxJitter, Steps: 10, Cap: lastPause}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// follower is the state of follow. One goroutine uses it.
type follower[T any] struct {
	table *table[T]
	find  func(context.Context) (resource, error)
	// at is the resource; nil while it is unknown.
	at *resource
	// version is the resource version that was read; empty: a list is needed.
	version string
}

// try lists, if needed, and watches until the watch ends. It reports whether a watch has begun.
func (f *follower[T]) try(ctx context.Context) (begun bool, err error) {
	if f.at == nil {
		at, err := f.find(ctx)
		if err != nil {
			return false, err
		}
		f.at, f.version = &at, ""
	}
	if f.version == "" {
		if err := f.list(ctx); err != nil {
			f.failed(err)
			return false, fmt.Errorf("list: %w", err)
		}
		f.table.tell(nil)
	}
	begun, err = f.watch(ctx)
	f.failed(err)
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		// The server no longer has that version; a new list is needed.
		err = nil
	case err != nil:
		err = fmt.Errorf("watch: %w", err)
	}
	return begun, err
}

// failed prepares the next attempt after an error.
func (f *follower[T]) failed(err error) {
	switch {
	case apierrors.IsNotFound(err):
		// An upgraded server may serve only another version of the API.
		f.at = nil
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		f.version = ""
	}
}

// list reads all objects, page by page.
func (f *follower[T]) list(ctx context.Context) error {
	rows := map[types.NamespacedName]row[T]{}
	options := metav1.ListOptions{FieldSelector: f.at.fields, Limit: pageSize}
	for {
		page, err := f.page(ctx, options)
		if err != nil {
			return err
		}
		err = meta.EachListItem(page, func(o runtime.Object) error {
			name, version, err := nameOf(o)
			if err != nil {
				return err
			}
			if kept, keep := f.table.cut(o); keep {
				rows[name] = row[T]{version, kept}
			}
			return nil
		})
		if err != nil {
			return err
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			f.version = list.GetResourceVersion()
			f.table.replace(rows)
			return nil
		}
	}
}

func (f *follower[T]) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return f.at.list(ctx, options)
}

// watch applies changes until the watch ends, and reports whether it has begun.
func (f *follower[T]) watch(ctx context.Context) (begun bool, err error) {
	lasts := watchFor + rand.N(watchFor) //nolint:gosec // Not for security.
	seconds := int64(lasts.Seconds())
	// A dead connection may stay silent forever.
	ctx, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	defer cancel()
	w, err := f.at.watch(ctx, metav1.ListOptions{
		FieldSelector: f.at.fields, ResourceVersion: f.version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	f.table.tell(nil)
	for {
		select {
		case event, more := <-w.ResultChan():
			if !more {
				return true, nil
			}
			if err := f.take(event); err != nil {
				return true, err
			}
		case <-ctx.Done():
			return true, nil
		}
	}
}

func (f *follower[T]) take(event watch.Event) error {
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	name, version, err := nameOf(event.Object)
	if err != nil {
		return err
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		f.table.put(name, version, event.Object)
	case watch.Deleted:
		f.table.remove(name)
	}
	f.version = version
	return nil
}

func nameOf(o runtime.Object) (name types.NamespacedName, version string, err error) {
	object, err := meta.Accessor(o)
	if err != nil {
		return name, "", fmt.Errorf("it has a %T: %w", o, err)
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, object.GetResourceVersion(), nil
}

// reason returns the part of an error by which it is logged once. Refusals are distinguished by their message.
func reason(err error) string {
	if errors.Is(err, errUnserved) {
		return errUnserved.Error()
	}
	return string(apierrors.ReasonForError(err))
}
