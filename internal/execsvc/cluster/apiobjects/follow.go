package apiobjects

import (
	"context"
	"math"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// The pauses between attempts double from firstPause to lastPause while attempts fail, and begin again every two
	// minutes. Up to maxJitter of a pause is added at random.
	firstPause, lastPause = time.Second, 8 * time.Second
	maxJitter             = 0.5
)

// follow keeps the table equal to the API server's objects until ctx ends. find returns the resource: at first, and
// again when the server no longer serves it. A reflector decides when to list and when to watch, and pauses after
// failures; the follower makes its requests, and is its store.
func (t *table[T]) follow(ctx context.Context, find func(context.Context) (Resource, error)) {
	f := &follower[T]{table: t, find: find, pace: rate.NewLimiter(rate.Every(firstPause), 1), listing: make(chan struct{}, 1)}
	quiet := logr.Discard() // The table logs failures, each once.
	r := cache.NewReflectorWithOptions(
		paged{&cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch}}, nil, f, cache.ReflectorOptions{
			Name: t.what, Logger: &quiet,
			Backoff: &wait.Backoff{Duration: firstPause, Factor: 2, Jitter: maxJitter, Steps: math.MaxInt32, Cap: lastPause},
		})
	// The client reports a connection that breaks as an internal error. The watch is repeated then, without a list.
	r.MaxInternalErrorRetryDuration = math.MaxInt64
	r.RunWithContext(klog.NewContext(ctx, quiet))
	// The reflector doesn't wait for its list under way, which ends with ctx.
	f.listing <- struct{}{}
}

// paged makes a reflector request lists in place of streaming lists: after a failure of those it doesn't end with its
// context.
type paged struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is called by the reflector.
func (paged) IsWatchListSemanticsUnSupported() bool { return true }

// follower makes the requests of a reflector, and is its store. It has one request at a time.
type follower[T any] struct {
	table *table[T]
	find  func(context.Context) (Resource, error)
	// at is the resource; nil while it is unknown.
	at *Resource
	// pace bounds how often watches begin: the reflector begins one as soon as the last one has ended.
	pace *rate.Limiter
	// listing is full during a list.
	listing chan struct{}
}

// Add is part of cache.ReflectorStore.
func (f *follower[T]) Add(obj any) error { return f.Update(obj) }

// Update is part of cache.ReflectorStore.
func (f *follower[T]) Update(obj any) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	f.table.put(nameOf(object), object.GetResourceVersion(), obj.(runtime.Object)) //nolint:forcetypeassert // It is the object of an event.
	return nil
}

// Delete is part of cache.ReflectorStore.
func (f *follower[T]) Delete(obj any) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	f.table.remove(nameOf(object))
	return nil
}

// Replace does nothing: list has replaced the table's objects.
func (*follower[T]) Replace([]any, string) error { return nil }

// Resync does nothing; a reflector without a period never calls it.
func (*follower[T]) Resync() error { return nil }

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
