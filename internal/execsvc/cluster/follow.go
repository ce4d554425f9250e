package cluster

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
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// The pause before the next try doubles from the first to the last while tries fail; half as much again is added at random.
	firstPause, lastPause = time.Second, 8 * time.Second
	// unservedPause is how long nobody asks for what the server doesn't have.
	unservedPause = 5 * time.Minute
	// pageSize is how many objects a list brings at once.
	pageSize = 500
	// listTimeout is how long a page may take.
	listTimeout = time.Minute
	// watchFor is how long one watch lasts at least, and at most twice as long. watchGrace is how long after that an answer is waited for.
	watchFor, watchGrace = 5 * time.Minute, 30 * time.Second
)

// errUnserved is why objects can't be read of which the API server doesn't know the kind.
var errUnserved = errors.New("the API server doesn't have them")

// resource is a kind of objects at the API server.
type resource struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// fields selects some of the objects; empty for all.
	fields string
}

// resourceOf is a resource by its typed client.
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

// follow keeps the table as the API server has it, until ctx ends. find tells where the objects are: at first, and again when they aren't
// there any more.
//
// Of a reflector of client-go it differs in that a list is never in memory as a whole, nor any object as it came, and in that it ends
// with ctx at once.
func (t *table[T]) follow(ctx context.Context, find func(context.Context) (resource, error)) {
	f := &follower[T]{table: t, find: find}
	pause := firstPause
	for ctx.Err() == nil {
		begun, err := f.try(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case begun:
			pause = firstPause
		default:
			pause = min(2*pause, lastPause)
		}
		next := pause
		if err != nil {
			t.tell(err)
			if errors.Is(err, errUnserved) {
				next = unservedPause
			}
		}
		wait(ctx, next+rand.N(next/2)) //nolint:gosec // It keeps no secret.
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// follower is how far a follow is. One goroutine uses it.
type follower[T any] struct {
	table *table[T]
	find  func(context.Context) (resource, error)
	// at is where the objects are, nil while it isn't known.
	at *resource
	// version is up to where they were read; empty: they have to be listed.
	version string
}

// try lists, if need be, and watches until the watch ends. It tells whether a watch has begun.
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
		// The server has forgotten that version, and is asked for all.
		err = nil
	case err != nil:
		err = fmt.Errorf("watch: %w", err)
	}
	return begun, err
}

// failed draws the consequences of an error for the next try.
func (f *follower[T]) failed(err error) {
	switch {
	case apierrors.IsNotFound(err):
		// A newer server may have another version of the API only.
		f.at = nil
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		f.version = ""
	}
}

// list reads all that there is, page by page.
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

// watch takes in changes until the watch ends, and tells whether it has begun.
func (f *follower[T]) watch(ctx context.Context) (begun bool, err error) {
	lasts := watchFor + rand.N(watchFor) //nolint:gosec // It keeps no secret.
	seconds := int64(lasts.Seconds())
	// A connection that has died may say nothing for ever.
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

// reason is what errors have in common that are told once. What was reached and said no is told apart by what it said.
func reason(err error) string {
	if errors.Is(err, errUnserved) {
		return errUnserved.Error()
	}
	return string(apierrors.ReasonForError(err))
}
