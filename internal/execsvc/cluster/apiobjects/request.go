package apiobjects

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podstream/podstream/internal/clusteruid"
)

const (
	// unservedPause is the pause before a kind that the server doesn't serve is requested again.
	unservedPause = 5 * time.Minute
	// pageSize is the number of objects in a page of a list.
	pageSize = 500
	// maxPages is the number of pages that a list may have: a faulty server may always name a next one.
	maxPages = 1000
	// listTimeout is the time limit for a page.
	listTimeout = time.Minute
	// watchGrace is how much longer than the time that the reflector requests a watch may last.
	watchGrace = 30 * time.Second
)

// errUnserved means that the API server doesn't serve the kind.
var errUnserved = errors.New("the API server doesn't have them")

// errCluster means that the pages of a list may be of two clusters.
var errCluster = errors.New("another cluster answers since the list began")

// errEndless means that a list has too many pages.
var errEndless = fmt.Errorf("list: it has more than %d pages", maxPages)

// The two errors that the reflector receives. It pauses after both. Then it lists after errList, and repeats the watch
// after errWatch: no other errors but refused connections and 429 have that effect.
var (
	errList        = errors.New("a list is needed")
	errWatch error = syscall.ECONNREFUSED
)

// Resource is a kind of objects at the API server.
type Resource struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// fields is the field selector; empty selects all.
	fields string
}

// ResourceOf returns the Resource of a typed client.
func ResourceOf[L runtime.Object](client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
},
) Resource {
	return Resource{
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		watch: client.Watch,
	}
}

// list is the reflector's ListWithContextFunc. It reads all pages, replaces the table's objects, and returns an empty
// list with the version that was read. If the reflector had the pages, it would hold all objects as received. It
// would also request the whole list at once if a page has expired, and whenever it lists again.
func (f *follower[T]) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	select {
	case f.listing <- struct{}{}:
		defer func() { <-f.listing }()
	case <-ctx.Done():
		return nil, errList
	}
	if f.at == nil {
		at, err := f.find(ctx)
		if err != nil {
			return nil, f.failed(ctx, err, errList)
		}
		f.at = &at
	}
	before, err := f.cluster(ctx)
	if err != nil {
		return nil, f.failed(ctx, err, errList)
	}
	rows := map[types.NamespacedName]row[T]{}
	options := metav1.ListOptions{FieldSelector: f.at.fields, Limit: pageSize}
	for range maxPages {
		version, err := f.page(ctx, &options, rows)
		if err != nil {
			return nil, f.failed(ctx, fmt.Errorf("list: %w", err), errList)
		}
		if options.Continue == "" {
			cluster, err := f.cluster(ctx)
			if err == nil && cluster != before {
				err = errCluster
			}
			if err != nil {
				return nil, f.failed(ctx, err, errList)
			}
			f.table.replace(rows, cluster)
			f.table.report(nil)
			return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
		}
	}
	return nil, f.failed(ctx, errEndless, errList)
}

// cluster returns the UID of the cluster whose server answers; empty: it is unknown, or of no use as nothing is stored.
func (f *follower[T]) cluster(ctx context.Context) (types.UID, error) {
	if f.table.memory == nil {
		return "", nil
	}
	uid, err := f.table.uid(ctx)
	if err != nil && !errors.Is(err, clusteruid.ErrUnknown) {
		return "", fmt.Errorf("get Service %s/%s: %w", clusteruid.Namespace, clusteruid.Service, err)
	}
	f.table.answered(uid)
	return uid, nil
}

// page reads a page into the rows, and sets the options to the next one. It returns the version of the list.
func (f *follower[T]) page(
	ctx context.Context, options *metav1.ListOptions, rows map[types.NamespacedName]row[T],
) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	page, err := f.at.list(ctx, *options)
	if err != nil {
		return "", err
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return "", err
	}
	options.Continue = list.GetContinue()
	return list.GetResourceVersion(), meta.EachListItem(page, func(o runtime.Object) error {
		object, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		if kept, keep := f.table.cut(o); keep {
			rows[nameOf(object)] = row[T]{object.GetResourceVersion(), kept}
		}
		return nil
	})
}

// watch is the reflector's WatchFuncWithContext.
func (f *follower[T]) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := f.pace.Wait(ctx); err != nil {
		return nil, errWatch // ctx has ended.
	}
	options.FieldSelector = f.at.fields
	// A dead connection may stay silent forever.
	bounded, cancel := context.WithTimeout(ctx, time.Duration(*options.TimeoutSeconds)*time.Second+watchGrace)
	w, err := f.at.watch(bounded, options)
	if err == nil {
		cluster, err := f.cluster(ctx)
		if err == nil && cluster == f.table.of() {
			f.table.report(nil)
			return &boundedWatch{w, cancel}, nil
		}
		w.Stop()
		cancel()
		if err != nil {
			return nil, f.failed(ctx, err, errWatch)
		}
		return nil, errList
	}
	cancel()
	switch failure := fmt.Errorf("watch: %w", err); {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return nil, errList // The server no longer has that version.
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return nil, f.failed(ctx, failure, errList)
	default:
		return nil, f.failed(ctx, failure, errWatch)
	}
}

// failed records the failure of a request, unless ctx has ended. It returns next, the error for the reflector.
func (f *follower[T]) failed(ctx context.Context, err, next error) error {
	if ctx.Err() != nil {
		return next
	}
	f.table.report(err)
	switch {
	case errors.Is(err, errUnserved):
		sleep(ctx, wait.Jitter(unservedPause, maxJitter))
	case apierrors.IsNotFound(err):
		// An upgraded server may serve only another version of the API.
		f.at = nil
	}
	return next
}

// boundedWatch is a watch with a deadline.
type boundedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop ends the watch.
func (w *boundedWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
}

// reason returns the part of an error by which it is logged once. Refusals are distinguished by their message.
func reason(err error) string {
	if errors.Is(err, errUnserved) {
		return errUnserved.Error()
	}
	return string(apierrors.ReasonForError(err))
}
